package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// setupItem is one item of a device.Setup, and how it is read and restored. A tenant who is root on
// the server reaches the BMC through the host interface, and so can have changed each of them.
type setupItem struct {
	name string
	// step restores it.
	step string
	read func(*handle, context.Context) (reading, error)
	// always is what is recorded where the BMC shows the item, whatever it is; nil: as it is.
	always map[string]string
	// boots: it decides what the next start boots, whatever the boot order.
	boots bool
	// first: only what is there at the first look has to go. What comes later is its owner's.
	first bool
}

// reading is an item as the BMC shows it.
type reading struct {
	// is nil where the BMC does not show the item.
	is map[string]string
	// ways are those of the entries that are there, rest those of another one, such as one that is missing.
	ways map[string]ways
	rest func(key string, want map[string]string) [][]request
	// hidden: the BMC can restore it and does not show it. It is restored in each clean.
	hidden bool
	// same: an entry with this value is as good as the wanted one; nil: none is.
	same func(key, want, is string) bool
}

// ways are requests that bring an entry to what is wanted, "" for its end: each way is tried until the entry
// is so. A way is sent request by request.
type ways func(want string) [][]request

// deleted is the way of an entry that is a resource of its own.
func deleted(path string) ways {
	return func(want string) [][]request {
		if want != "" {
			return nil
		}
		return [][]request{{{Method: http.MethodDelete, Path: path}}}
	}
}

// patched is the way of an entry whose value is a property.
func patched(path string, body func(want string) map[string]any) ways {
	return func(want string) [][]request {
		if want == "" {
			return nil
		}
		return [][]request{{patch(path, body(want))}}
	}
}

// show: the BMC shows the item, whether it has an entry or not.
func (r *reading) show() {
	if r.is == nil {
		r.is, r.ways = map[string]string{}, map[string]ways{}
	}
}

// add adds an entry. Of two with one name the second gets a number.
func (r *reading) add(key, value string, by ways) {
	r.show()
	key = hardware.OneLine(strings.TrimSuffix(key, "/"))
	for n, plain := 2, key; r.is[key] != ""; n++ {
		key = fmt.Sprintf("%s (%d)", plain, n)
	}
	r.is[key] = hardware.OneLine(value)
	if by != nil {
		r.ways[key] = by
	}
}

// differs names the entries that are not as they are wanted, in order.
func (r reading) differs(want map[string]string) []string {
	all := maps.Clone(r.is)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, want)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(key string) bool {
		return want[key] == r.is[key] || r.same != nil && r.same(key, want[key], r.is[key])
	})
}

// waysTo are the requests for an entry; nil: there are none.
func (r reading) waysTo(key string, want map[string]string) [][]request {
	switch {
	case r.ways[key] != nil:
		return r.ways[key](want[key])
	case r.rest != nil:
		return r.rest(key, want)
	}
	return nil
}

// describe names differences for an operator.
func (r reading) describe(name string, keys []string, want map[string]string) string {
	var all []string
	for _, key := range keys {
		text := "is " + r.is[key] + " instead of " + want[key]
		switch {
		case want[key] == "":
			text = "was not there"
		case r.is[key] == "":
			text = "is missing"
		}
		all = append(all, fmt.Sprintf("%s: %s %s", name, key, text))
	}
	return hardware.OneLine(listed(all))
}

// setupItems are all items, in the order in which they are read and restored. What gives a foreigner
// a new way in comes before what he has come in by.
func setupItems() []setupItem {
	return []setupItem{
		{name: device.SetupAccounts, step: stepBMCRestore, read: (*handle).readAccounts},
		{name: device.SetupKeys, step: stepBMCRestore, read: (*handle).readKeys},
		{name: device.SetupSubscriptions, step: stepBMCRestore, read: (*handle).readSubscriptions},
		{name: device.SetupMedia, step: stepBMCRestore, read: (*handle).readMedia, boots: true},
		{name: device.SetupInterfaces, step: stepBMCRestore, read: (*handle).readInterfaces},
		{name: device.SetupProtocols, step: stepBMCRestore, read: (*handle).readProtocols},
		{name: device.SetupSessions, step: stepBMCRestore, read: (*handle).readSessions, always: map[string]string{},
			first: true},
		{name: device.SetupCertificates, step: stepBMCRestore, read: (*handle).readCertificates},
		{name: device.SetupPasswords, step: stepBMCRestore, read: (*handle).readPasswords},
		lockdownItem,
		{name: device.SetupOverride, step: stepBootRestore, read: (*handle).readOverride, boots: true,
			always: map[string]string{overrideKey: overrideOff}},
		{name: device.SetupBoot, step: stepBootRestore, read: (*handle).readBoot},
		{name: device.SetupSecureBoot, step: stepSecureBootRestore, read: (*handle).readSecureBoot},
		{name: device.SetupSecureBootKeys, step: stepSecureBootRestore, read: (*handle).readSecureBootKeys},
		{name: device.SetupTPM, step: stepTPMClear, read: (*handle).readTPM},
	}
}

var lockdownItem = setupItem{name: device.SetupLockdown, step: stepBMCRestore, read: (*handle).readLockdown}

// itemsOf are those that a step restores.
func itemsOf(step string) []setupItem {
	return slices.DeleteFunc(setupItems(), func(i setupItem) bool { return i.step != step })
}

// readSetup reads how the server is set up, for its enrollment.
func (h *handle) readSetup(ctx context.Context) (device.Setup, error) {
	setup := device.Setup{}
	for _, item := range setupItems() {
		r, err := item.read(h, ctx)
		switch {
		case err != nil:
			return nil, err
		case r.is == nil:
		case item.always != nil:
			setup[item.name] = item.always
		default:
			maps.DeleteFunc(r.is, func(key, _ string) bool { return item.name == device.SetupBoot && isOfSystem(key) })
			setup[item.name] = r.is
		}
	}
	return setup, nil
}

// wantedSetup is what the steps restore: what was recorded at the enrollment, but for the items of the
// policy's golden profile. Items that must be covered are args.Require.
func (h *handle) wantedSetup(run hardware.StepRun) (setup device.Setup, args device.RestoreArgs, err error) {
	if len(run.Args) > 0 {
		if err := json.Unmarshal(run.Args, &args); err != nil {
			return nil, args, hardware.CallerError("the arguments of %s: %v", run.Step, err)
		}
	}
	if args.Golden != "" && args.Setup == nil {
		return nil, args, hardware.Refused(device.CodeInvalidSetting,
			"add the profile to golden in the policy, restart the control workers, then clean the server",
			"the policy has no golden profile %q, with which the server was enrolled", args.Golden)
	}
	enrolled, err := h.enrolledProperties()
	setup = device.Setup{}
	maps.Copy(setup, enrolled.Setup)
	maps.Copy(setup, args.Setup)
	return setup, args, err
}

// refusedRead: the BMC has no such resource, no license for it, or refuses it.
func refusedRead(err error) bool {
	r, ok := asRefusal(err)
	return ok && (r.Status >= 400 && r.Status < 500 && r.Status != http.StatusUnauthorized ||
		r.Status == http.StatusNotImplemented)
}

// coverage is what a step says of its items.
type coverage struct{ restored, same, missing, unrecorded []string }

// add adds an item that is as wanted.
func (c *coverage) add(item string, restored bool) {
	if restored {
		c.restored = append(c.restored, item)
	} else {
		c.same = append(c.same, item)
	}
}

// note is the line for the record.
func (c coverage) note() string {
	var parts []string
	for _, part := range []struct {
		text  string
		items []string
	}{{"restored: ", c.restored}, {"as recorded: ", c.same}, {"not recorded at the enrollment: ", c.unrecorded},
		{"not covered: ", c.missing}} {
		if len(part.items) > 0 {
			parts = append(parts, part.text+strings.Join(part.items, ", "))
		}
	}
	return hardware.OneLine(strings.Join(parts, "; "))
}

// known says whether there is something to compare an item with. One that was recorded and that the BMC
// does not show any more is a difference.
func (c *coverage) known(item setupItem, r reading, want map[string]string) (bool, error) {
	switch {
	case want == nil && r.is == nil:
		c.missing = append(c.missing, item.name)
	case want == nil:
		c.unrecorded = append(c.unrecorded, item.name)
	case r.is == nil:
		return false, mismatch("the BMC showed %s when the server was enrolled, and does not any more", item.name)
	}
	return want != nil, nil
}

// check refuses a server whose BMC does not show an item that the policy requires.
func (c coverage) check(require []string) error {
	for _, item := range c.missing {
		if slices.Contains(require, item) {
			return hardware.Refused(device.CodeNotCovered,
				"update the BMC's firmware, see its license; or take the item out of the policy's require_covered",
				"the policy requires that %s is covered, and the BMC does not offer it", item)
		}
	}
	return nil
}

// mismatch is the fault of items that are not as they must be.
func mismatch(format string, args ...any) error {
	return hardware.Refused(device.CodeSetupMismatch,
		"correct it on the BMC, then clean the server; or enroll the server again as it is now", format, args...)
}

// restoreBMC brings each item of the BMC to what was recorded. What was restored is read again. The
// account that Burnish uses gets no request.
func (h *handle) restoreBMC(ctx context.Context, run hardware.StepRun) (string, error) {
	setup, args, err := h.wantedSetup(run)
	if err != nil {
		return "", err
	}
	var c coverage
	for n, item := range itemsOf(stepBMCRestore) {
		h.percent = 100 * n / len(itemsOf(stepBMCRestore))
		if err := h.restoreItem(ctx, run, item, setup[item.name], &c); err != nil {
			return "", err
		}
	}
	c.missing = append(c.missing, "host memory")
	return c.note(), c.check(args.Require)
}

// restoreItem brings an item to what is wanted, and reads it again.
func (h *handle) restoreItem(ctx context.Context, run hardware.StepRun, item setupItem, want map[string]string,
	c *coverage) error {
	b, err := h.bring(ctx, run, item, want, false, true)
	if err != nil {
		return err
	}
	if known, err := c.known(item, b.reading, want); err != nil || !known {
		return err
	}
	if len(b.differ) > 0 {
		return mismatch("%s%s", b.describe(item.name, b.differ, want), b.why)
	}
	c.add(item.name, b.asked)
	return nil
}

// brought is what has come of an attempt to bring an item to what is wanted.
type brought struct {
	reading          // the last one
	differ  []string // what was not so then
	// asked: something differed, and was asked for where the BMC has a way. why is the last refusal, as the end
	// of a message.
	asked bool
	why   string
	// later: the BMC refuses it for now.
	later bool
}

// bring brings each entry of an item that differs to what is wanted, by one way after the other until the BMC shows it
// so. atStart: it is in force after the next start; the first way counts that the BMC takes. One such request may be
// for several entries, and an entry that is gone changes those of others. patient: what the BMC refuses for now is
// asked for again.
func (h *handle) bring(ctx context.Context, run hardware.StepRun, item setupItem, want map[string]string,
	atStart, patient bool) (b brought, err error) {
	tried, sent, began := map[string]int{}, map[string]bool{}, time.Now()
	var first []string
	for {
		if b.reading, err = item.read(h, ctx); err != nil || want == nil || b.is == nil {
			return b, err
		}
		b.differ = b.differs(want)
		if b.hidden && atStart {
			b.differ = []string{hiddenKey}
		}
		if item.first && first == nil {
			first = slices.Clone(append(b.differ, "")) // "": it was looked at
		}
		if item.first {
			b.differ = slices.DeleteFunc(b.differ, func(key string) bool { return !slices.Contains(first, key) })
		}
		b.asked = b.asked || len(b.differ) > 0
		i := slices.IndexFunc(b.differ, func(key string) bool { return tried[key] < len(b.waysTo(key, want)) })
		if i < 0 || time.Since(began) > h.driver.timing.restart {
			return b, nil
		}
		key := b.differ[i]
		ways := b.waysTo(key, want)
		way := ways[tried[key]]
		tried[key]++
		if id := fmt.Sprint(way); atStart && sent[id] {
			tried[key] = len(ways)
			continue
		} else {
			sent[id] = true
		}
		if err := h.progress(run, h.percent, "restores "+item.name+": "+hardware.OneLine(key)); err != nil {
			return b, err
		}
		refusedWith, err := h.sendPatiently(ctx, run, way, atStart, patient)
		switch {
		case err != nil:
			return b, err
		case refusedWith == nil && atStart:
			tried[key] = math.MaxInt
		case refusedWith == nil:
			if err := h.shows(ctx, run, item, want, key); err != nil {
				return b, err
			}
		case !patient && mayBeAskedAgain(refusedWith):
			b.later = true
			return b, nil
		default:
			b.why = ": " + refusedWith.Error()
		}
	}
}

// sendPatiently sends the requests of a way, again where an answer was lost: each asks for a state. patient: what the
// BMC refuses for now is sent again, too.
func (h *handle) sendPatiently(ctx context.Context, run hardware.StepRun, way []request,
	atStart, patient bool) (refusedWith, err error) {
	err = h.until(ctx, run, h.driver.timing.post, func() (done bool, doing string, err error) {
		refusedWith, err = h.send(ctx, way)
		if err != nil || !isLost(refusedWith) && !(patient && mayBeAskedAgain(refusedWith)) {
			return err == nil, "", err
		}
		if atStart && patient { // a job of the one whose answer was lost may wait, and be in the way
			_, _, err = h.takeBack(ctx, run)
		}
		return false, "asks again: " + hardware.OneLine(refusedWith.Error()), err
	}, nil)
	return refusedWith, err
}

// send sends the requests of one way. refusedWith is the BMC's refusal of one, or that its answer was lost:
// what has come of it is read.
func (h *handle) send(ctx context.Context, way []request) (refusedWith, err error) {
	for _, r := range way {
		_, err := h.change(ctx, r)
		if _, is := asRefusal(err); is || isLost(err) {
			return err, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// shows waits until the BMC shows an item, or these entries of it, as they are wanted, for as long as that may
// take.
func (h *handle) shows(ctx context.Context, run hardware.StepRun, item setupItem, want map[string]string,
	entries ...string) error {
	return h.until(ctx, run, h.driver.timing.settle, func() (bool, string, error) {
		r, err := item.read(h, ctx)
		differ := slices.DeleteFunc(r.differs(want), func(key string) bool {
			return len(entries) > 0 && !slices.Contains(entries, key)
		})
		return err == nil && len(differ) == 0, "waits until the BMC shows " + item.name, err
	}, nil)
}
