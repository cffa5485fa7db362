package redfish

import (
	"context"
	"slices"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// stage is how far a change is that a restart of the server brings into force. "": nothing is known to be wanted.
type stage string

const (
	// stageAsked: the BMC has accepted all that is wanted. It is pending.
	stageAsked stage = "asked"
	// stageOff: the server was seen off since then. The next start brings what is wanted into force.
	stageOff stage = "off"
	// stageStarted: POST has ended since then.
	stageStarted stage = "started"
	// stageRestarted: no BIOS job is left since then. What is read is in force.
	stageRestarted stage = "restarted"
	// stageDone: what was read was right.
	stageDone stage = "done"
)

// cycle is one run of a step whose changes a restart brings into force: what is wanted is asked for, the server is
// switched off and on, and what is in force is read.
type cycle struct {
	h    *handle
	run  hardware.StepRun
	name string // of its record; steps that share restarts share it
	rec  cycleRecord
	// before is the number of restarts that were counted before this attempt.
	before int
}

// cycleRecord is its progress, as it is journaled on the host. It holds what the BMC does not show: most do not say
// that a reset of the BIOS is pending, and none says reliably whether the server was reset since.
type cycleRecord struct {
	Stage stage `json:"stage,omitempty"`
	// Count counts the restarts.
	Count int `json:"count,omitempty"`
	// Work is the BMC's task of what the BIOS was asked for, where it has one.
	Work work `json:"work,omitzero"`
	// Asked is what was asked for a restoring step before the last restart.
	Asked map[string]asked `json:"asked,omitempty"`
}

// do carries the step out, from where an earlier attempt, or step, was interrupted. check says whether what is wanted
// is in force; ask asks for it, and says whether there was something to ask for.
func (c *cycle) do(ctx context.Context, check, ask func(context.Context) (bool, error)) error {
	if _, err := c.run.Load(c.name, &c.rec); err != nil {
		return err
	}
	c.before = c.rec.Count
	for {
		if err := c.restart(ctx); err != nil {
			return err
		}
		if done, err := check(ctx); err != nil || done {
			return err
		}
		if asked, err := ask(ctx); err != nil || !asked {
			return err
		}
		if err := c.save(stageAsked); err != nil {
			return err
		}
	}
}

func (c *cycle) save(now stage) error {
	c.rec.Stage = now
	return c.run.Save(c.name, c.rec)
}

// restarts is how often this attempt has restarted the server.
func (c *cycle) restarts() int { return c.rec.Count - c.before }

// restart restarts the server if that was begun, and waits for what comes into force with it.
func (c *cycle) restart(ctx context.Context) error {
	if c.rec.Stage == stageAsked || c.rec.Stage == stageOff {
		c.h.percent = 20
	}
	if err := c.offAndOn(ctx); err != nil || c.rec.Stage != stageStarted {
		return err
	}
	c.h.percent = 80
	if err := c.h.awaitBIOSJobs(ctx, c.run); err != nil {
		return err
	}
	c.rec.Count++
	return c.save(stageRestarted)
}

// offAndOn switches the server off and on and waits for the end of POST, from the stage that an earlier
// attempt has come to. Off and on can be read, and so can be repeated; whether a reset was carried out
// cannot.
func (c *cycle) offAndOn(ctx context.Context) error {
	h := c.h
	if c.rec.Stage == stageAsked {
		if err := h.powerOff(ctx, c.run); err != nil {
			return err
		}
		if err := c.save(stageOff); err != nil {
			return err
		}
	}
	if c.rec.Stage != stageOff {
		return nil
	}
	before, err := h.readSystem(ctx)
	if err != nil {
		return err
	}
	if before.PowerState == redfish.OnPowerState {
		before = nil // an earlier attempt has switched it on
	} else if _, err := h.disarm(ctx, c.run); err != nil { // now that nothing of a tenant's runs any more
		return err
	}
	if err := h.powerOn(ctx, c.run); err != nil {
		return err
	}
	// Powered on is not started: the settings come into force during POST.
	if err := h.waitForPOST(ctx, c.run, postWait{before: before, started: true}); err != nil {
		return err
	}
	return c.save(stageStarted)
}

// restart switches the server off and on and waits for the end of POST. How far it is, is not journaled.
func (h *handle) restart(ctx context.Context, run hardware.StepRun) error {
	run.Save = func(string, any) error { return nil }
	return (&cycle{h: h, run: run, rec: cycleRecord{Stage: stageAsked}}).offAndOn(ctx)
}

// awaitBIOSJobs waits until no BIOS job is left: before, some BMCs show what is pending as if it were in
// force.
func (h *handle) awaitBIOSJobs(ctx context.Context, run hardware.StepRun) error {
	var job *task
	return h.until(ctx, run, h.driver.timing.post, func() (done bool, doing string, err error) {
		all, err := h.tasks(ctx)
		i := slices.IndexFunc(all, func(t *task) bool { return t.changesBIOS() && !t.isAnothers(h.system) })
		if err != nil || i < 0 {
			return err == nil, "", err
		}
		job = all[i]
		return false, "waits for the BIOS job " + job.String(), nil
	}, func() error {
		return hardware.Refused(device.CodeBIOSJobWaiting, "see the job on the BMC; clean the server again when it has ended",
			"the server has started, and a BIOS job has not ended: %s", job)
	})
}
