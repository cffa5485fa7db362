package activities_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// The host checks the arguments of a step again before it touches the device: what reaches it
// need not come from a plan of Burnish's.
func TestArgumentsAreCheckedOnTheHost(t *testing.T) {
	for step, args := range map[string]string{
		"zero":             `{"passes":0}`,
		"bios_apply":       `{"BootMode":{"of":"objects"}}`,
		"bios_reset":       `[]`,
		"firmware_reflash": `{"component":"BIOS"}`,
		"verify_firmware":  `{"image":"/tmp/x"}`,
	} {
		t.Run(step, func(t *testing.T) {
			s := newTestHost(t)
			in := s.input(step)
			in.Args = json.RawMessage(args)
			_, err := s.run(first(t), in)
			requireFault(t, err, device.CodeInvalid, false)
			require.Empty(t, s.disk.history(), "nothing of the device was touched")
		})
	}
}
