package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// HostScanner finds the devices of its host with those of its drivers that are a
// hardware.Finder, and has them enrolled (S2.6).
type HostScanner struct {
	Client  *client.Client
	Host    *host.Host
	Drivers map[string]hardware.Driver
	Log     *slog.Logger
	// CheckServer fails if the server is another than that of the host's records; nil: not
	// checked.
	CheckServer func(context.Context) error

	scanned atomic.Pointer[string] // what the last scan found, until Watch has compared it
}

// enrollTimeout bounds one enrollment.
const enrollTimeout = 4 * time.Minute

// FoundDevice is a device that a driver found.
type FoundDevice struct {
	Driver string
	hardware.Found
}

// AnyFinder says whether one of the drivers finds its devices.
func AnyFinder(drivers map[string]hardware.Driver) bool {
	for _, d := range drivers {
		if _, ok := d.(hardware.Finder); ok {
			return true
		}
	}
	return false
}

// FindDevices lists what all drivers find, in the order of addresses. It changes nothing
// and sends no command to a device.
func FindDevices(ctx context.Context, drivers map[string]hardware.Driver) ([]FoundDevice, error) {
	all := []FoundDevice{}
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		finder, ok := drivers[name].(hardware.Finder)
		if !ok {
			continue
		}
		found, err := finder.Find(ctx)
		if err != nil {
			return nil, fmt.Errorf("find devices by the driver %s: %w", name, err)
		}
		for _, f := range found {
			f.Address = strings.ToLower(f.Address)
			all = append(all, FoundDevice{Driver: name, Found: f})
		}
	}
	slices.SortStableFunc(all, func(a, b FoundDevice) int { return strings.Compare(a.Address, b.Address) })
	return all, nil
}

// CheckUnambiguous refuses an address at which two drivers find a device, or one driver
// finds two: the fault invalid_configuration, which names them (S2.30). The devices must be
// in the order of addresses.
func CheckUnambiguous(all []FoundDevice) error {
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.Address != b.Address {
			continue
		}
		message := fmt.Sprintf("InvalidConfiguration: the drivers %s and %s both find the device at %s", a.Driver,
			b.Driver, a.Address)
		if a.Driver == b.Driver {
			message = fmt.Sprintf("InvalidConfiguration: the driver %s finds two devices at %s", a.Driver, a.Address)
		}
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInvalidConfig, Message: message,
			Remedy: "change device_spec in host.yaml, or BURNISH_DRIVERS, so that one driver finds it"}
	}
	return nil
}

// ScanHost finds the host's devices, has new ones enrolled, and sends a hint to those that
// changed, went missing or came back. A second run finds what the first one enrolled.
// Retried: transient faults, after everything else was done. Final: invalid_configuration, and then
// nothing was done.
func (s *HostScanner) ScanHost(ctx context.Context, in contract.ScanInput) (contract.ScanResult, error) {
	out, err := s.scan(ctx, in)
	return out, asError(err, in.Host)
}

func (s *HostScanner) scan(ctx context.Context, in contract.ScanInput) (contract.ScanResult, error) {
	if !strings.EqualFold(in.Host, s.Host.Name()) {
		return contract.ScanResult{}, &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
			Message: fmt.Sprintf("this is host %s, not %s", s.Host.Name(), in.Host), Remedy: "check BURNISH_HOST of the workers"}
	}
	all, err := FindDevices(ctx, s.Drivers)
	if err != nil {
		return contract.ScanResult{}, err
	}
	if err := CheckUnambiguous(all); err != nil {
		return contract.ScanResult{}, err
	}
	devices, err := json.Marshal(all)
	if err != nil {
		return contract.ScanResult{}, err
	}
	s.scanned.Store(new(string(devices)))
	records, err := s.Host.ListRecords()
	if err != nil {
		s.Log.Warn("some records are unreadable: their devices are not managed until an operator acts", "error", err)
	}
	v := &hostScan{HostScanner: s, in: in, out: contract.ScanResult{NewDigests: map[string]string{}},
		records: map[string]host.Record{}}
	for _, r := range records {
		v.records[r.Name] = r
	}
	v.resume(ctx)
	there := map[string]bool{}
	for _, one := range all {
		there[v.deviceName(one)] = true
	}
	failed := forEach(all, func(one FoundDevice) error { return v.handleFound(ctx, one) })
	failed = errors.Join(failed, forEach(records, func(r host.Record) error { return v.reportMissing(ctx, r, there) }))
	v.finish(all, there)
	if failed == nil {
		return v.out, nil
	}
	activity.RecordHeartbeat(ctx, v.out)
	if errors.Is(failed, context.Canceled) {
		return contract.ScanResult{}, failed
	}
	return contract.ScanResult{}, errors.New(oneLine(failed.Error()))
}

// hostScan is one attempt of one scan.
type hostScan struct {
	*HostScanner
	in      contract.ScanInput
	records map[string]host.Record

	mu  sync.Mutex
	out contract.ScanResult
}

// resume continues from what an earlier attempt of this scan did: a device that fails for hours would
// otherwise have all others of its host looked at, and refused, again in each attempt.
func (v *hostScan) resume(ctx context.Context) {
	if !activity.HasHeartbeatDetails(ctx) {
		return
	}
	var before contract.ScanResult
	if err := activity.GetHeartbeatDetails(ctx, &before); err != nil {
		v.Log.Warn("the results of the previous attempt are unreadable", "error", err)
		return
	}
	known := map[string]string{}
	maps.Copy(known, v.in.KnownDigests)
	maps.DeleteFunc(known, func(name, _ string) bool { return slices.Contains(before.RemovedDigests, name) })
	maps.Copy(known, before.NewDigests)
	v.in.KnownDigests, v.in.Refused, v.in.Missing, v.in.RetryRefused = known, before.Refused, before.Missing, false
	maps.Copy(v.out.NewDigests, before.NewDigests)
	v.out.RemovedDigests = before.RemovedDigests
	v.out.Counts.Enrolled, v.out.Counts.Hinted = before.Counts.Enrolled, before.Counts.Hinted
}

// deviceName is the name under which a found device is, or would be, enrolled.
func (v *hostScan) deviceName(one FoundDevice) string {
	return strings.ToLower(v.Host.Name() + "_" + one.Address)
}

// handleFound decides about one device that was found: hint, leave alone, or enroll.
func (v *hostScan) handleFound(ctx context.Context, one FoundDevice) error {
	name := v.deviceName(one)
	record, recorded := v.records[name]
	i := slices.IndexFunc(v.in.Refused, func(r contract.RefusedDevice) bool { return r.Name == name })
	switch {
	case recorded && !record.Forgotten && record.Driver != "" && record.Driver != one.Driver:
		return v.keepOtherDriver(record, one, i >= 0)
	case recorded && !record.Forgotten:
		if v.in.KnownDigests[name] == one.Digest {
			return nil
		}
		return v.hint(ctx, name, one.Digest)
	case i >= 0 && v.in.Refused[i].Digest == one.Digest && !v.in.RetryRefused:
		v.addRefused(v.in.Refused[i])
		return nil
	case recorded && i < 0 && v.in.KnownDigests[name] == one.Digest && !v.in.RetryRefused:
		v.addForgotten(name, one.Digest)
		return nil
	case recorded:
		again, err := v.enrollmentWasRefused(ctx, name, i >= 0)
		if err != nil {
			return err
		}
		if !again {
			v.addForgotten(name, one.Digest)
			return nil
		}
	}
	return v.enroll(ctx, name, one)
}

// keepOtherDriver refuses a device that is enrolled with another driver: a driver replaces
// another one only where neither has a device of the other (S2.31).
func (v *hostScan) keepOtherDriver(record host.Record, one FoundDevice, before bool) error {
	r := contract.RefusedDevice{Name: record.Name, Driver: one.Driver, Digest: one.Digest, Code: device.CodeInvalidConfig,
		Reason: fmt.Sprintf("it is enrolled with the driver %s; retire and forget it first, so that %s can have it",
			record.Driver, one.Driver)}
	if before {
		v.addRefused(r)
	} else {
		v.reportRefused(r)
	}
	return nil
}

// enrollmentWasRefused says of a device that the host has forgotten whether its enrollment
// was refused: that run has failed, and the run of a device that an operator forgot has
// completed. Without a run on the server, the previous result counts.
func (v *hostScan) enrollmentWasRefused(ctx context.Context, name string, before bool) (bool, error) {
	run, found, err := v.Client.LastRun(ctx, name)
	switch {
	case err != nil:
		return false, fmt.Errorf("describe the last run of %s: %w", name, err)
	case !found:
		return before, nil
	}
	return run.Failed, nil
}

// enroll has a new device enrolled, manageable.
func (v *hostScan) enroll(ctx context.Context, name string, one FoundDevice) error {
	known := contract.RefusedDevice{Name: name, Driver: one.Driver, Digest: one.Digest}
	if _, err := device.NameOf(v.Host.Name(), one.Address); err != nil {
		known.Code, known.Reason = device.CodeInvalid, err.Error()
		v.reportRefused(known)
		return nil
	}
	if other := v.findSameSerial(name, one.Serial); other != "" {
		// An enrollment would report the other device as a duplicate (F23).
		known.Code, known.Reason = device.CodeDuplicateSerial, "the drive with serial "+one.Serial+" is enrolled as "+other+
			" already; retire and forget that, or take this address out of device_spec"
		v.reportRefused(known)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, enrollTimeout)
	defer cancel()
	result, err := v.Client.Do(ctx, name, contract.VerbEnroll, contract.EnrollInput{
		Caller:   contract.Caller{By: "worker of host " + v.Host.Name()},
		Hardware: contract.Hardware{Model: one.Model, Serial: one.Serial},
		Enrollment: contract.Enrollment{
			Name: name, Host: v.Host.Name(), Driver: one.Driver, Type: strings.ToUpper(one.Type), Address: one.Address,
			Owner: device.OwnerSelf, OneTimeUse: one.OneTimeUse,
		},
	})
	switch refusal, ok := contract.RefusalOf(err); {
	case err == nil && result.Already:
		// Its workflow knows it and this host does not: a hint makes it discover.
		return v.hint(ctx, name, one.Digest)
	case err == nil:
		v.Log.Info("a device was found and enrolled", "device", name, "driver", one.Driver, "type", one.Type)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.out.NewDigests[name] = one.Digest
		v.out.Counts.Enrolled++
		return nil
	case ok && (refusal.Fault.Class != device.Transient || refusal.Fault.Code == device.CodeTargetBusy) &&
		refusal.Fault.Code != device.CodeHostUnreachable:
		// A device may be in use by a guest or a mount for months; its digest changes when
		// the host's driver has it again.
		known.Code, known.Reason = refusal.Fault.Code, oneLine(refusal.Fault.Error())
		v.reportRefused(known)
		return nil
	}
	return fmt.Errorf("enroll %s: %w", name, err)
}

// findSameSerial names another device of this host with this serial, which another driver
// may have enrolled.
func (v *hostScan) findSameSerial(name, serial string) string {
	for _, r := range v.records {
		if r.Name != name && !r.Forgotten && hardware.SameSerial(r.Identity.Serial, serial) {
			return r.Name
		}
	}
	return ""
}

// hint asks the device's workflow to discover its device: a scan itself changes no state
// (F6). A missing workflow is started again when the host's worker starts.
func (v *hostScan) hint(ctx context.Context, name, digest string) error {
	if _, err := v.Client.Hint(ctx, name, contract.SignalRefresh, contract.Hint{Source: "scan"}); err != nil {
		return fmt.Errorf("hint to %s: %w", name, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if digest != "" {
		v.out.NewDigests[name] = digest
	}
	v.out.Counts.Hinted++
	return nil
}

// reportMissing lists a device of this host that is missing; the first time it sends a hint.
func (v *hostScan) reportMissing(ctx context.Context, r host.Record, there map[string]bool) error {
	if _, finds := v.Drivers[r.Driver].(hardware.Finder); !finds || r.Forgotten || r.Address == "" || there[r.Name] {
		return nil
	}
	if !slices.Contains(v.in.Missing, r.Name) {
		if err := v.hint(ctx, r.Name, ""); err != nil {
			return err
		}
		v.Log.Warn("a device is missing", "device", r.Name, "driver", r.Driver)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.Missing = append(v.out.Missing, r.Name)
	return nil
}

// reportRefused logs and keeps a device that was not enrolled just now.
func (v *hostScan) reportRefused(r contract.RefusedDevice) {
	v.Log.Warn("a device was found and is not enrolled", "device", r.Name, "driver", r.Driver, "fault", string(r.Code),
		"error", r.Reason)
	v.addRefused(r)
}

func (v *hostScan) addRefused(r contract.RefusedDevice) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.Refused = append(v.out.Refused, r)
}

// addForgotten counts a device that an operator has forgotten, and leaves it alone.
func (v *hostScan) addForgotten(name, digest string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.in.KnownDigests[name] != digest {
		v.out.NewDigests[name] = digest
	}
	v.out.Counts.Forgotten++
}

// finish sorts and counts the results.
func (v *hostScan) finish(all []FoundDevice, there map[string]bool) {
	for name := range v.in.KnownDigests {
		if !there[name] {
			v.out.RemovedDigests = append(v.out.RemovedDigests, name)
			delete(v.out.NewDigests, name)
		}
	}
	slices.Sort(v.out.RemovedDigests)
	slices.SortFunc(v.out.Refused, func(a, b contract.RefusedDevice) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(v.out.Missing)
	v.out.Counts.Found, v.out.Counts.Refused, v.out.Counts.Missing = len(all), len(v.out.Refused), len(v.out.Missing)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
