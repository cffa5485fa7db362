package redfish

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// speaking is a BMC that writes its JSON in this way from now on.
func (s *stepper) speaking(d redfishsim.Dialect) {
	s.bmc.Configure(func(c *redfishsim.Config) { c.Dialect = d })
}

// Everything is read and done on BMCs that write numbers, links, names of actions and what is empty in
// a way of their own.
func TestAServerIsCleanedWhateverItsBMCWritesLike(t *testing.T) {
	for name, d := range map[string]redfishsim.Dialect{
		"whole numbers as floats": {Floats: true},
		"absolute links":          {AbsoluteLinks: true},
		"versioned actions":       {VersionedActions: true},
		"lists for what is empty": {EmptyLists: true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				s := newStepper(t, p, twoDrives, func(_ *redfishsim.Config, s *redfishsim.State) {
					s.Storages[0].Drives[0].CapacityBytes = 122_880_000_000_000
				})
				plain := s.enrollWhole()
				s.speaking(d)
				require.Equal(t, plain, s.enrollWhole(), "what is enrolled")
				for _, step := range []string{"security_check", "erase_drives", "verify", "bios_reset", "verify_properties"} {
					_, err := s.run(step, nil)
					require.NoError(t, err, step)
				}
				_, err := s.run("firmware_reflash", s.update("BIOS"))
				require.NoError(t, err)
				require.Equal(t, "9.9.9", s.component("BIOS").Version)
				if p != redfishsim.OpenBMC { // it has no attributes
					_, err = s.run("bios_apply", wantedBIOS)
					require.NoError(t, err)
					require.EqualValues(t, 90, s.bmc.State().BIOS.Attributes["AcPwrRcvryUserDelay"])
				}
				require.Empty(t, s.bmc.TenantData())
				s.requireNoHarm()
			})
		})
	}
}

// odd is a value of a type that texts, numbers and objects do not have, oddList of one that lists do not.
var (
	odd     = []any{map[string]any{"Odd": "never seen"}}
	oddList = map[string]any{"Odd": "never seen"}
)

func TestAnOptionalPropertyOfAnotherTypeCostsThatPropertyOnly(t *testing.T) {
	for name, lost := range map[string]func(p *device.Properties){
		"BiosVersion": nil, "LastResetTime": nil, "BootProgress": nil, "BootSourceOverrideTarget": nil,
		// The collections have it.
		"ProcessorSummary": nil, "MemorySummary": nil, "Count": nil, "CoreCount": nil, "TotalSystemMemoryGiB": nil,
		"TotalCores": nil, "CapacityMiB": nil, // the summary has it
		"PCIeInterface": func(p *device.Properties) { p.Links = nil },
		"PCIeType": func(p *device.Properties) {
			for i := range p.Links {
				p.Links[i].Speed = ""
			}
		},
		"CapacityBytes": func(p *device.Properties) {
			for i := range p.Drives {
				p.Drives[i].CapacityBytes = 0
			}
		},
		"Protocol": func(p *device.Properties) {
			for i := range p.Drives {
				p.Drives[i].Protocol = ""
			}
		},
		"Actions": nil, "Oem": nil, "Description": nil, "Redundancy@odata.count": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, redfishsim.OpenBMC, func(c *redfishsim.Config, _ *redfishsim.State) { c.NoLastResetTime = true })
			want := s.enrollWhole()
			if lost != nil {
				lost(&want)
			}
			s.speaking(redfishsim.Dialect{Properties: map[string]any{name: odd}})
			s.driver.timing.blindPOST = 0
			require.Equal(t, want, s.enrollWhole())
		})
	}
}

// What decides whether something runs, is over, is whose or is good is never taken for nothing because
// it is of a type that nobody knows. The fault has the BMC's words.
func TestAPropertyOfAnotherTypeThatDecidesIsAFault(t *testing.T) {
	for name, tc := range map[string]struct {
		step string
		p    redfishsim.Personality
	}{
		"Operations": {"erase_drives", redfishsim.ILO}, "Drives": {"erase_drives", redfishsim.IDRAC},
		"Chassis": {"erase_drives", redfishsim.IDRAC}, "SerialNumber": {"erase_drives", redfishsim.IDRAC},
		"PowerState": {"bios_reset", redfishsim.ILO}, "State": {"bios_reset", redfishsim.ILO},
		"PostState": {"bios_reset", redfishsim.ILO}, "PercentComplete": {"bios_reset", redfishsim.OpenBMC},
		"TaskState": {"firmware_reflash", redfishsim.OpenBMC}, "TaskStatus": {"firmware_reflash", redfishsim.OpenBMC},
		"Messages": {"firmware_reflash", redfishsim.OpenBMC}, "Members": {"firmware_reflash", redfishsim.OpenBMC},
		"Version":    {"verify_firmware", redfishsim.IDRAC},
		"Attributes": {"bios_reset", redfishsim.Supermicro}, "AttributeRegistry": {"bios_reset", redfishsim.Supermicro},
		"@Redfish.Settings": {"bios_apply", redfishsim.Supermicro}, "RegistryEntries": {"bios_reset", redfishsim.Supermicro},
		"JobState": {"bios_reset", redfishsim.IDRAC}, "Bios": {"security_check", redfishsim.Supermicro},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, tc.p, twoDrives)
			args := any(wantedBIOS)
			if strings.Contains(tc.step, "firmware") {
				args = s.update("BIOS")
			}
			begun := "Completed"
			if name == "JobState" {
				begun = "New"
			}
			s.bmc.Change(func(state *redfishsim.State) {
				state.Tasks = append(state.Tasks, &redfishsim.Task{ID: "JID_1", Name: "Odd", State: begun, Status: "OK"})
			})
			other := any(odd)
			if slices.Contains([]string{"Operations", "Drives", "Chassis", "Messages", "Members"}, name) {
				other = oddList
			}
			s.speaking(redfishsim.Dialect{Properties: map[string]any{name: other}})
			_, err := s.run(tc.step, args)
			require.Equal(t, device.CodeToolOutputInvalid, code(err), "%v", err)
			require.ErrorContains(t, err, "never seen")
			require.Zero(t, s.bmc.State().ResetCount)
		})
	}
}

// An operation that says nothing that is known is one.
func TestADriveWithAnOperationThatNobodyKnowsIsNotIdle(t *testing.T) {
	s := newStepper(t, redfishsim.ILO, twoDrives)
	s.speaking(redfishsim.Dialect{Properties: map[string]any{"Operations": odd}})
	_, err := s.run("erase_drives", nil)
	require.Equal(t, device.CodeToolOutputInvalid, code(err), "%v", err)
}

// Some show one operation on a drive on which nothing is done.
func TestADriveWithAnOperationWithoutANameIsIdle(t *testing.T) {
	idle := []any{map[string]any{"AssociatedTask": []any{}, "OperationName": nil, "PercentageComplete": 0}}
	s := newStepper(t, redfishsim.Supermicro, twoDrives)
	s.speaking(redfishsim.Dialect{Properties: map[string]any{"Operations": idle}})
	for _, step := range []string{"erase_drives", "verify", "bios_reset"} {
		_, err := s.run(step, nil)
		require.NoError(t, err, step)
	}
}

// An error in the place of a resource is a refusal, and nothing that is there and empty.
func TestAnErrorWithAGoodStatusIsARefusal(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC, twoDrives)
	s.bmc.Inject(redfishsim.Fault{
		Method: http.MethodGet, Path: tasksPath, Kind: redfishsim.Respond, Status: 200, Times: -1,
		Body: `{"error": {"code": "Odd.1.0.TasksAreOut", "message": "no tasks today"}}`,
	})
	_, err := s.run("erase_drives", nil)
	require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
	require.ErrorContains(t, err, "no tasks today")
	require.Empty(t, s.bmc.Writes())
}

// A task, or a drive, of which nothing that is known is said may be at work.
func TestThePowerStateIsNotChangedWhereWhatRunsCannotBeRead(t *testing.T) {
	for path, body := range map[string]string{
		tasksPath + "/7":  `{"Id": "7", "Name": "odd"}`,
		tasksPath:         `{"Name": "a collection without members"}`,
		"*/Drives/*":      `{"SerialNumber": "S", "Operations": {"OperationName": "Sanitize"}}`,
		"*/Storage":       `{"Members": [{}]}`,
		"*/Storage/*":     `{"Drives": {"@odata.id": "/redfish/v1/Drives"}}`,
		"*/UpdateService": `{"Oem": {"Hpe": {"State": ["Updating"]}}}`,
	} {
		t.Run(path, func(t *testing.T) {
			s := newStepper(t, redfishsim.OpenBMC, twoDrives)
			s.bmc.Change(func(state *redfishsim.State) {
				state.Tasks = append(state.Tasks, &redfishsim.Task{ID: "7", Name: "odd", State: "Completed", Status: "OK"})
			})
			s.bmc.Inject(redfishsim.Fault{
				Method: http.MethodGet, Path: path, Kind: redfishsim.Respond, Status: 200, Times: -1, Body: body,
			})
			h := s.open()
			require.Equal(t, device.CodeToolOutputInvalid, code(h.Power(t.Context(), "off")))
			require.Empty(t, s.bmc.Writes())
			require.NoError(t, h.Close())
		})
	}
}

// A setting that is refused at its property is not restarted for, whatever the status.
func TestTheServerIsNotRestartedForASettingThatIsRefused(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.ILO, redfishsim.Supermicro} {
		for _, status := range []int{200, 202, 400} {
			s := newStepper(t, p, quickBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
				c.RefusedAttribute, c.RefusedStatus = "BootMode", status
			})
			_, err := s.run("bios_apply", wantedBIOS)
			require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
			require.ErrorContains(t, err, "Attributes Base.1.8.PropertyNotWritable The property BootMode is a read only")
			require.Zero(t, s.bmc.State().ResetCount)
		}
	}
	for name, body := range map[string]string{
		"at the attribute": `{"BootMode@Message.ExtendedInfo":
			[{"MessageId": "Base.1.19.PropertyValueTypeError", "MessageSeverity": "Warning", "Message": "why not"}]}`,
		"below the attributes": `{"Attributes": {"BootMode@Message.ExtendedInfo": [` +
			`{"MessageId": "Base.1.19.Odd", "Message": "why not"}]}}`,
		"in the error": `{"error": {"code": "Base.1.8.GeneralError",
			"Boot@Message.ExtendedInfo": [{"MessageId": "Base.1.10.PropertyUnknown", "Message": "why not"}]}}`,
		"one that is no list": `{"Attributes@Message.ExtendedInfo": ` +
			`{"MessageId": "X.PropertyNotWritable", "Message": "why not"}}`,
		"among others": `{"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success", "Severity": "OK"}],
			"Attributes@Message.ExtendedInfo": [{"MessageId": "X.PropertyNotWritable", "Message": "why not"}]}`,
		"a warning, never seen": `{"@Message.ExtendedInfo":
			[{"MessageId": "X.1.0.Zebra", "Severity": "Warning", "Message": "why not"}]}`,
		"an error without infos": `{"error": {"code": "Base.1.0.PropertyNotWritable", "message": "why not"}}`,
		"words for a message":    `{"Attributes@Message.ExtendedInfo": ["why not"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, redfishsim.Supermicro, quickBMC)
			s.bmc.Inject(redfishsim.Fault{
				Method: http.MethodPatch, Kind: redfishsim.Respond, Status: 200, Body: body, Times: -1,
			})
			_, err := s.run("bios_apply", wantedBIOS)
			require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
			require.ErrorContains(t, err, "why not")
			require.Zero(t, s.bmc.State().ResetCount)
		})
	}
}

// What comes with a success is no refusal.
func TestAMessageOfASuccessIsNoRefusal(t *testing.T) {
	for name, body := range map[string]string{
		"HPE": `{"error": {"code": "iLO.0.10.ExtendedInfo", "message": "See @Message.ExtendedInfo for more information.",
			"@Message.ExtendedInfo": [{"MessageId": "iLO.2.14.SystemResetRequired"}]}}`,
		"Dell": `{"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.8.SYS413",
			"Message": "The operation successfully completed.", "Severity": "Informational"}]}`,
		"Supermicro": `{"Success": {"code": "Base.v1_4_0.Success", "Message": "Successfully Completed Request."}}`,
		"two severities": `{"@Message.ExtendedInfo": [` +
			`{"MessageId": "X.1.0.Done", "Severity": "OK", "MessageSeverity": "OK"}]}`,
		"a warning": `{"@Message.ExtendedInfo": [` +
			`{"MessageId": "Base.1.8.ResetRequired", "MessageSeverity": "Warning"}]}`,
		"at a property": `{"Attributes@Message.ExtendedInfo": [` +
			`{"MessageId": "Base.1.8.Success", "Message": "done", "Severity": "OK"},
			{"MessageId": "X.1.0.SystemRebootRequired", "Severity": "Warning"}]}`,
		"no words": ``,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, redfishsim.Supermicro, quickBMC)
			s.bmc.Inject(redfishsim.Fault{Method: http.MethodPatch, Kind: redfishsim.RespondAfter, Status: 200, Body: body})
			_, err := s.run("bios_apply", wantedBIOS)
			require.NoError(t, err)
			require.Equal(t, "Bios", s.bmc.State().BIOS.Attributes["BootMode"])
		})
	}
}

func TestETagsThatDiffer(t *testing.T) {
	for _, odd := range []string{"", "header", "body"} {
		for _, weak := range []bool{false, true} {
			s := newStepper(t, redfishsim.Supermicro, quickBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
				c.RequireIfMatch, c.WeakETags, c.OddETag = true, weak, odd
			})
			_, err := s.run("bios_apply", wantedBIOS)
			require.NoError(t, err, "%s %v", odd, weak)
			require.Empty(t, s.bmc.WritesWithoutIdentity())
		}
	}
}
