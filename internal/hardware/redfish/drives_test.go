package redfish

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// list reads the server's drives.
func (s *stepper) list() ([]device.Drive, error) {
	s.t.Helper()
	h, err := s.driver.connect(s.target)
	require.NoError(s.t, err)
	defer func() { require.NoError(s.t, h.Close()) }()
	all, err := h.drives(s.t.Context())
	return driveProperties(all), err
}

func TestAListOfDrivesIsNeverShorterThanWhatIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*redfishsim.State)
		fault  *redfishsim.Fault
		want   device.Code
	}{
		"one drive is 404": {fault: &redfishsim.Fault{Method: "GET", Path: "*Drives/Disk.1*", Kind: redfishsim.Respond,
			Status: 404}, want: device.CodeToolOutputInvalid},
		"one drive is 403": {fault: &redfishsim.Fault{Method: "GET", Path: "*Drives/Disk.1*", Kind: redfishsim.Respond,
			Status: 403}, want: device.CodeToolOutputInvalid},
		"one storage is 404": {fault: &redfishsim.Fault{Method: "GET", Path: "*/Storage/*", Kind: redfishsim.Respond,
			Status: 404}, want: device.CodeToolOutputInvalid},
		"no serial": {change: func(s *redfishsim.State) { s.Storages[0].Drives[0].Serial = "" },
			want: device.CodeToolOutputInvalid},
		"placeholder": {change: func(s *redfishsim.State) { s.Storages[0].Drives[0].Serial = "N/A" },
			want: device.CodeToolOutputInvalid},
		"two with one serial": {change: func(s *redfishsim.State) {
			s.Storages[0].Drives[1].Serial = s.Storages[0].Drives[0].Serial
		}, want: device.CodeDuplicateSerial},
		"one serial two sizes": {change: func(s *redfishsim.State) {
			s.Storages[1].Drives[0].Serial = s.Storages[0].Drives[0].Serial
		}, want: device.CodeDuplicateSerial},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				s := newStepper(t, p)
				if c.change != nil {
					s.bmc.Change(c.change)
				}
				if c.fault != nil {
					s.bmc.Inject(*c.fault)
				}
				all, err := s.list()
				require.Error(t, err)
				require.Equal(t, c.want, code(err), err.Error())
				require.Empty(t, all)
			})
		})
	}
}
