package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/uevent"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Offered looks after the devices of a host while they are offered (SAFETY F39): their workflows
// are told what the kernel reports of them, and what a comparison finds. It only gives hints:
// the workflow has the host look, and decides (F6).
type Offered struct {
	Client  *client.Client
	Host    *host.Host
	Drivers map[string]hardware.Driver
	Log     *slog.Logger
	// AtWork says that what a step of this worker does, or has just done, is reported as a change of the
	// device; requested: by a program. A step compares the device itself at its end.
	AtWork func(name string, requested bool) bool
	// Events are the kernel's; nil: none can be received.
	Events Events

	// failed are the devices whose last comparison had a transient fault.
	failed map[string]bool
}

// Events are the kernel's; see uevent.Socket.
type Events interface {
	Read() (uevent.Event, error)
	Close() error
}

// The bounds of hints and comparisons.
const (
	quiet          = 2 * time.Second
	hintTimeout    = 10 * time.Second
	hintPause      = time.Second
	compareTimeout = time.Minute
	comparedAtOnce = 8
	heardAtOnce    = 256
)

// Watch tells each device of this host at once that the kernel reports something of it, and after
// that at most once in a quiet time. A hint that could not be sent is sent again. It returns
// when ctx ends, or with the error of the events.
func (o *Offered) Watch(ctx context.Context) error {
	if o.Events == nil {
		return nil
	}
	heard, ended := make(chan uevent.Event, heardAtOnce), make(chan error, 1)
	go func() { ended <- o.read(ctx, heard) }()
	due, sent := map[string]time.Time{}, map[string]time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			closed := o.Events.Close() // which ends the reader, whose error is that
			if err := <-ended; closed != nil {
				return errors.Join(ctx.Err(), closed, err)
			}
			return ctx.Err()
		case err := <-ended:
			return err
		case <-timer.C:
		case e := <-heard:
			together := []uevent.Event{e}
			for range len(heard) {
				together = append(together, <-heard)
			}
			for _, name := range o.concerned(together) {
				if _, waits := due[name]; !waits {
					due[name] = sent[name].Add(quiet)
				}
			}
		}
		timer.Reset(o.hintDue(ctx, due, sent))
	}
}

// hintDue sends the hints that are due, and says when the next ones are.
func (o *Offered) hintDue(ctx context.Context, due, sent map[string]time.Time) time.Duration {
	now, ready := time.Now(), []string{}
	for name, at := range due {
		if !at.After(now) {
			ready = append(ready, name)
			delete(due, name)
			sent[name] = now
		}
	}
	for _, name := range o.hintAll(ctx, ready, "event of the kernel") {
		due[name] = now.Add(hintPause)
	}
	next := time.Hour
	for _, at := range due {
		next = min(next, time.Until(at))
	}
	return max(next, 0)
}

// read passes on the events that may concern a device. Lost ones are passed on as one without a
// path.
func (o *Offered) read(ctx context.Context, heard chan<- uevent.Event) error {
	for {
		e, err := o.Events.Read()
		switch {
		case errors.Is(err, uevent.ErrLost):
			e = uevent.Event{}
		case err != nil:
			return err
		case e.Subsystem != "block" && e.Subsystem != "nvme" && e.Subsystem != "pci":
			continue
		}
		select {
		case heard <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// concerned names the devices that events are about: of the disk or the PCI function, of what is
// below it, or of what it is below.
func (o *Offered) concerned(events []uevent.Event) []string {
	records, err := o.Host.ListRecords()
	if err != nil {
		o.Log.Debug("some records are unreadable", "error", err)
	}
	var names []string
	for _, r := range records {
		about := func(e uevent.Event) bool {
			own := e.Action == "change" && o.AtWork != nil && o.AtWork(r.Name, e.Requested)
			return concerns(e, r) && !own
		}
		if !r.Forgotten && slices.ContainsFunc(events, about) {
			names = append(names, r.Name)
		}
	}
	return names
}

func concerns(e uevent.Event, r host.Record) bool {
	if e.Path == "" { // lost
		return true
	}
	for part := range strings.SplitSeq(strings.Join(append(e.Controllers, e.Path), "/"), "/") {
		if part != "" && (part == r.Address || "/dev/"+strings.ReplaceAll(part, "!", "/") == r.Identity.Path) {
			return true
		}
	}
	return false
}

// hintAll sends a hint to each device, and names those to which it could not be sent.
func (o *Offered) hintAll(ctx context.Context, names []string, source string) (unsent []string) {
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	var mu sync.Mutex
	err := forEach(names, func(name string) error {
		_, err := o.Client.Hint(ctx, name, contract.SignalRefresh, contract.Hint{Source: source, Hardware: true})
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			unsent = append(unsent, name)
		}
		return err
	})
	if err != nil {
		o.Log.Warn("devices were not told that their hardware may have changed; it is tried again", "error",
			oneLine(err.Error()))
	}
	return unsent
}

// Compare looks at each device of this host that the server lists as available, and gives a hint
// to those that are not what they were when Burnish had them last. A fault that may pass counts
// when the next comparison has it again.
func (o *Offered) Compare(ctx context.Context) error {
	var offered []string
	f := client.Filter{client.ByHost: {o.Host.Name()}, client.ByState: client.States(device.Available)}
	listed, err := newest(ctx, o.Client, f)
	if err != nil {
		return fmt.Errorf("list the devices that host %s offers: %w", o.Host.Name(), err)
	}
	for name, e := range listed {
		if !e.Status.Maintenance {
			offered = append(offered, name)
		}
	}
	var mu sync.Mutex
	failed, changed := map[string]bool{}, []string{}
	_ = forEachOf(comparedAtOnce, offered, func(name string) error {
		err := o.compare(ctx, name)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if f, ok := device.AsFault(err); ok && f.Class == device.Transient && !o.failed[name] {
			failed[name] = true
			return nil
		}
		o.Log.Warn("an offered device is not as it was left", "device", name, "error", oneLine(err.Error()))
		changed = append(changed, name)
		return nil
	})
	o.failed = failed
	if unsent := o.hintAll(ctx, changed, "comparison"); len(unsent) > 0 {
		return fmt.Errorf("%d devices that changed were not told", len(unsent))
	}
	return ctx.Err()
}

// compare says in what a device differs from the host's record of it.
func (o *Offered) compare(ctx context.Context, name string) error {
	r, found, err := o.Host.LoadRecord(name)
	driver, known := o.Drivers[r.Driver]
	if err != nil || !found || r.Forgotten || !known {
		return err // the record says no more than the device's workflow knows
	}
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	e := recordOf(r, o.Host.Name()).Enrollment
	target := targetOf(e)
	target.Reflashed = r.Reflashed.For(r.Identity.Serial, r.Binding)
	now, err := driver.Discover(ctx, target, r.Identity)
	if err != nil {
		return err
	}
	if field := r.Identity.Differs(now.Identity); field != "" {
		return fmt.Errorf("another %s than enrolled", field)
	}
	if r, _, err := o.Host.LoadRecord(name); err == nil && r.WrittenByOthers(now.Mark) {
		return errors.New("others have written to it")
	}
	return nil
}
