package steps_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// card is a device whose steps a program runs.
type card struct{ *memory }

var _ hardware.StepRunner = (*card)(nil)

func (c *card) RunStep(_ context.Context, run hardware.StepRun) (string, error) {
	if err := run.MayGoOn(); err != nil {
		return "", err
	}
	return "by the program", c.call("perform %s", run.Step)
}

// A program's step is recorded before it starts.
//
// S0.31, S2.2
func TestAProgramsStep(t *testing.T) {
	for _, step := range []steps.Step{steps.EraseDevice(), steps.Verify(), steps.FirmwareReflash(), steps.PCIReset()} {
		t.Run(step.Name, func(t *testing.T) {
			require.Equal(t, step.Name != "verify", step.Writes)
			run := func(c *card, checkpoint error) (steps.Outcome, error) {
				return step.Run(t.Context(), &steps.Work{Device: c, Operation: device.Script, Record: func(int64) error {
					c.calls = append(c.calls, "checkpoint")
					return checkpoint
				}})
			}
			c := &card{memory: newMemory(0, tenants)}
			out, err := run(c, nil)
			require.NoError(t, err)
			require.Equal(t, steps.Outcome{Method: "memory", Note: "by the program"}, out)
			require.Equal(t, []string{"checkpoint", "perform " + step.Name}, c.calls)

			c = &card{memory: newMemory(0, tenants)}
			_, err = run(c, errInjected)
			require.ErrorIs(t, err, errInjected)
			require.Equal(t, []string{"checkpoint"}, c.calls, "an attempt that was superseded starts nothing")

			c = &card{memory: newMemory(0, tenants)}
			c.failAt = 2
			_, err = run(c, nil)
			require.ErrorIs(t, err, errInjected)

			_, err = step.Run(t.Context(), &steps.Work{Device: newMemory(blockSize, tenants), Operation: device.Script})
			fault, ok := device.AsFault(err)
			require.True(t, ok)
			require.Equal(t, device.CodeNoErasePath, fault.Code, "a device whose driver does not support the step")
		})
	}
}
