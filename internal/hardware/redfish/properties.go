package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// readProperties reads what a server consists of that is on and whose POST has ended.
func (h *handle) readProperties(ctx context.Context, s *system) (device.Properties, error) {
	p := device.Properties{
		CPUs: s.ProcessorSummary.Count, Cores: s.ProcessorSummary.CoreCount,
		MemoryMiB: int64(math.Round(s.MemorySummary.TotalSystemMemoryGiB * 1024)),
	}
	if p.CPUs == 0 || p.Cores == 0 {
		cpus, cores, err := h.countCPUs(ctx, s)
		if err != nil {
			return device.Properties{}, err
		}
		p.CPUs, p.Cores = cmp.Or(p.CPUs, cpus), cmp.Or(p.Cores, cores)
	}
	var err error
	if p.MemoryMiB == 0 {
		if p.MemoryMiB, err = h.sumMemory(ctx, s); err != nil {
			return device.Properties{}, err
		}
	}
	if p.Links, err = h.readLinks(ctx, s); err != nil {
		return device.Properties{}, err
	}
	drives, err := h.drives(ctx)
	if err != nil {
		return device.Properties{}, err
	}
	p.Drives = driveProperties(drives)
	return p, nil
}

// countCPUs counts the CPUs that are there, and their cores.
func (h *handle) countCPUs(ctx context.Context, s *system) (cpus, cores int, err error) {
	err = h.each(ctx, s.Processors, func(a answer) error {
		var cpu struct {
			ProcessorType redfish.ProcessorType `bmc:"optional"`
			TotalCores    int                   `bmc:"optional"`
			Status        resourceStatus        `bmc:"optional"`
		}
		if err := a.decode(&cpu); err != nil {
			return err
		}
		if (cpu.ProcessorType == redfish.CPUProcessorType || cpu.ProcessorType == "") && cpu.Status.State != "Absent" {
			cpus, cores = cpus+1, cores+cpu.TotalCores
		}
		return nil
	})
	return cpus, cores, err
}

// sumMemory adds up the memory modules that are there.
func (h *handle) sumMemory(ctx context.Context, s *system) (sum int64, err error) {
	err = h.each(ctx, s.Memory, func(a answer) error {
		var module struct {
			CapacityMiB int64          `bmc:"optional"`
			Status      resourceStatus `bmc:"optional"`
		}
		if err := a.decode(&module); err != nil {
			return err
		}
		if module.Status.State != "Absent" {
			sum += module.CapacityMiB
		}
		return nil
	})
	return sum, err
}

// readLinks reads the PCIe devices of the system, else of its chassis, that have a link.
func (h *handle) readLinks(ctx context.Context, s *system) ([]device.Link, error) {
	devices := paths(append(slices.Clone(s.PCIeDevices), s.Links.PCIeDevices...))
	if len(devices) == 0 {
		for _, chassis := range s.Links.Chassis {
			var body struct {
				PCIeDevices link `bmc:"optional"`
			}
			if err := h.c.get(ctx, string(chassis), &body); err != nil {
				return nil, err
			}
			found, err := h.list(ctx, body.PCIeDevices)
			if err != nil {
				return nil, err
			}
			devices = append(devices, found...)
		}
	}
	var links []device.Link
	read := map[string]bool{}
	for _, path := range devices {
		if path == "" || read[path] {
			continue
		}
		read[path] = true
		var d struct {
			ID            string `json:"Id"`
			Name          string
			Status        resourceStatus `bmc:"optional"`
			PCIeInterface struct {
				LanesInUse int    `bmc:"optional"`
				PCIeType   string `bmc:"optional"`
			} `bmc:"optional"`
		}
		if err := h.c.get(ctx, path, &d); err != nil {
			return nil, err
		}
		if d.Status.State == "Absent" || d.PCIeInterface.LanesInUse == 0 && d.PCIeInterface.PCIeType == "" {
			continue
		}
		links = append(links, device.Link{Name: cmp.Or(hardware.OneLine(d.Name), d.ID), Width: d.PCIeInterface.LanesInUse,
			Speed: d.PCIeInterface.PCIeType})
	}
	slices.SortFunc(links, func(a, b device.Link) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Width, b.Width), cmp.Compare(a.Speed, b.Speed))
	})
	return links, nil
}

// list gives the members of a collection; none where the BMC does not have it.
func (h *handle) list(ctx context.Context, collection link) ([]string, error) {
	path := string(collection)
	if path == "" {
		return nil, nil
	}
	members, err := h.c.members(ctx, path)
	if hasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return members, err
}

// each reads every member of a collection.
func (h *handle) each(ctx context.Context, collection link, use func(answer) error) error {
	members, err := h.list(ctx, collection)
	if err != nil {
		return err
	}
	for _, member := range members {
		got, err := h.c.Get(ctx, member)
		if err != nil {
			return err
		}
		if err := use(got); err != nil {
			return err
		}
	}
	return nil
}

// propertiesRecord is what verify_properties must know after a crash.
type propertiesRecord struct {
	FoundOff bool `json:"found_off,omitempty"`
}

// verifyProperties compares what the server consists of with the profile of the policy, or with
// what was enrolled (S3.5). A server that is off is switched on for it, and off again.
func (h *handle) verifyProperties(ctx context.Context, run hardware.StepRun) (string, error) {
	want, with, err := h.wantedProperties(run)
	if err != nil {
		return "", err
	}
	var rec propertiesRecord
	found, err := run.Load(run.Step, &rec)
	if err != nil {
		return "", err
	}
	if !found {
		s, err := h.readOnceSettled(ctx, run)
		if err != nil {
			return "", err
		}
		rec.FoundOff = s.PowerState == redfish.OffPowerState
		if err := run.Save(run.Step, rec); err != nil {
			return "", err
		}
	}
	// Before the end of POST a BMC does not know all that is there.
	if err := h.ensureOn(ctx, run); err != nil {
		return "", err
	}
	s, err := h.readReady(ctx)
	if err != nil {
		return "", err
	}
	is, err := h.readProperties(ctx, s)
	if err != nil {
		return "", err
	}
	if differ := propertiesDiffer(want, is); len(differ) > 0 {
		return "", hardware.Refused(device.CodePropertiesMismatch,
			"repair the server; or correct the profile of the policy, or enroll the server again as it is now",
			"the server is not %s: %s", with, strings.Join(differ, "; "))
	}
	if rec.FoundOff {
		if err := h.powerOff(ctx, run); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("as %s: %d CPUs, %d cores, %d MiB of memory, %d drives, %d PCIe links", with, is.CPUs, is.Cores,
		is.MemoryMiB, len(is.Drives), len(is.Links)), nil
}

// wantedProperties gives what the server must consist of, and what says so.
func (h *handle) wantedProperties(run hardware.StepRun) (want device.Properties, with string, err error) {
	if len(run.Args) > 0 && string(run.Args) != "null" {
		if err := json.Unmarshal(run.Args, &want); err != nil {
			return want, "", hardware.Refused(device.CodeInvalid, "correct the profile in the policy",
				"the profile of verify_properties is unreadable: %v", err)
		}
		return want, "its policy's profile says", nil
	}
	want, err = device.ParseProperties(h.enrolled.Properties)
	if err != nil {
		return want, "", hardware.Refused(device.CodeInternal, "enroll the server again", "%v", err)
	}
	return want, "enrolled", nil
}

// propertiesDiffer names each difference. A zero field of want is not compared, but where want
// has drives or links, each one that it does not have is a difference.
func propertiesDiffer(want, is device.Properties) (differ []string) {
	count := func(what string, want, is int64) {
		if want != 0 && want != is {
			differ = append(differ, fmt.Sprintf("%s: %d instead of %d", what, is, want))
		}
	}
	count("CPUs", int64(want.CPUs), int64(is.CPUs))
	count("cores", int64(want.Cores), int64(is.Cores))
	count("MiB of memory", want.MemoryMiB, is.MemoryMiB)
	return slices.Concat(differ, drivesDiffer(want.Drives, is.Drives), linksDiffer(want.Links, is.Links))
}

// drivesDiffer pairs the drives: by serial where want has one, else by what else it says.
func drivesDiffer(want, is []device.Drive) (differ []string) {
	if len(want) == 0 {
		return nil
	}
	left := slices.Clone(is)
	// Those that say most choose first.
	ordered := slices.Clone(want)
	slices.SortStableFunc(ordered, func(a, b device.Drive) int { return driveDetail(b) - driveDetail(a) })
	for _, w := range ordered {
		i := slices.IndexFunc(left, func(d device.Drive) bool { return driveFits(w, d) })
		if i < 0 && w.Serial != "" {
			i = slices.IndexFunc(left, func(d device.Drive) bool {
				return hardware.CanonicalSerial(d.Serial) == hardware.CanonicalSerial(w.Serial)
			})
			if i >= 0 {
				differ = append(differ, fmt.Sprintf("drive %s: %s instead of %s", w.Serial, describeDrive(left[i], false),
					describeDrive(w, false)))
			}
		}
		if i < 0 {
			differ = append(differ, "missing drive "+describeDrive(w, true))
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, d := range left {
		differ = append(differ, "extra drive "+describeDrive(d, true))
	}
	return differ
}

func driveDetail(d device.Drive) int {
	n := 0
	for _, has := range []bool{d.Model != "", d.CapacityBytes != 0, d.Protocol != ""} {
		if has {
			n++
		}
	}
	if d.Serial != "" {
		n += 10
	}
	return n
}

// driveFits: is has all that want says.
func driveFits(want, is device.Drive) bool {
	return (want.Serial == "" || hardware.CanonicalSerial(want.Serial) == hardware.CanonicalSerial(is.Serial)) &&
		(want.Model == "" || strings.EqualFold(strings.TrimSpace(want.Model), strings.TrimSpace(is.Model))) &&
		(want.CapacityBytes == 0 || want.CapacityBytes == is.CapacityBytes) &&
		(want.Protocol == "" || strings.EqualFold(want.Protocol, is.Protocol))
}

func describeDrive(d device.Drive, withSerial bool) string {
	var words []string
	if withSerial {
		words = append(words, d.Serial)
	}
	words = append(words, d.Model, d.Protocol)
	if d.CapacityBytes != 0 {
		words = append(words, fmt.Sprintf("%d bytes", d.CapacityBytes))
	}
	return hardware.OneLine(strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", "))
}

// linksDiffer pairs the PCIe devices by name; several may have the same.
func linksDiffer(want, is []device.Link) (differ []string) {
	if len(want) == 0 {
		return nil
	}
	fits := func(w, l device.Link) bool {
		return w.Name == l.Name && (w.Width == 0 || w.Width == l.Width) && (w.Speed == "" || w.Speed == l.Speed)
	}
	left := slices.Clone(is)
	var unpaired []device.Link
	for _, w := range want {
		if i := slices.IndexFunc(left, func(l device.Link) bool { return fits(w, l) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			unpaired = append(unpaired, w)
		}
	}
	for _, w := range unpaired {
		i := slices.IndexFunc(left, func(l device.Link) bool { return w.Name == l.Name })
		if i < 0 {
			differ = append(differ, "missing PCIe device "+describeLink(w))
			continue
		}
		differ = append(differ, fmt.Sprintf("link of %s instead of %s", describeLink(left[i]), describeLink(w)))
		left = slices.Delete(left, i, i+1)
	}
	for _, l := range left {
		differ = append(differ, "extra PCIe device "+describeLink(l))
	}
	return differ
}

func describeLink(l device.Link) string {
	return strings.TrimSpace(fmt.Sprintf("%s x%d %s", l.Name, l.Width, l.Speed))
}
