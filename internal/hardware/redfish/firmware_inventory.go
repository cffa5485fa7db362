package redfish

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// updateService is what the driver reads of the UpdateService.
type updateService struct {
	FirmwareInventory    link
	MultipartHTTPPushURI link       `json:"MultipartHttpPushUri" bmc:"optional"`
	OperationApplyTimes  applyTimes `bmc:"optional"`
	ServiceTimes         applyTimes `json:"@Redfish.OperationApplyTimeSupport" bmc:"optional"`
	MultipartTimes       applyTimes `json:"MultipartHttpPushUri@Redfish.OperationApplyTimeSupport" bmc:"optional"`
	Actions              struct {
		SimpleUpdate updateAction `json:"#UpdateService.SimpleUpdate"`
		StartUpdate  updateAction `json:"#UpdateService.StartUpdate"`
	} `bmc:"optional"`
	Oem struct{ Hpe *hpeUpdates } `bmc:"object"`
}

// hpeUpdates is what HPE says besides.
type hpeUpdates struct {
	State           string
	UpdateTaskQueue link
}

type applyTimes struct{ SupportedValues []string }

type updateAction struct {
	Target     link       `json:"target" bmc:"optional"`
	Protocols  []string   `json:"TransferProtocol@Redfish.AllowableValues" bmc:"optional"`
	ApplyTimes applyTimes `json:"@Redfish.OperationApplyTimeSupport" bmc:"optional"`
}

// busy says what the service is doing, where it says so: HPE's has no task. "" is nothing.
func (u *updateService) busy() string {
	if oem := u.Oem.Hpe; oem != nil &&
		!slices.Contains([]string{"", "idle", "complete", "error"}, strings.ToLower(oem.State)) {
		return oem.State
	}
	return ""
}

// software is one entry of the firmware inventory.
type software struct {
	path        string
	ID          string `json:"Id"`
	Name        string
	Version     string
	SoftwareID  string `json:"SoftwareId"`
	Status      resourceStatus
	RelatedItem []link
}

// readUpdateService reads the BMC's UpdateService, which every BMC has at this path.
func (h *handle) readUpdateService(ctx context.Context) (*updateService, error) {
	u := &updateService{}
	return u, h.get(ctx, "/redfish/v1/UpdateService", u)
}

// inventory reads the firmware inventory, by its collection: the URIs of a Dell's entries change with
// their versions.
func (h *handle) inventory(ctx context.Context, u *updateService) (all []*software, err error) {
	if u.FirmwareInventory == "" {
		return nil, hardware.Refused(device.CodeToolOutputInvalid, "update the BMC's firmware",
			"the BMC has no firmware inventory")
	}
	for range maxTries {
		all = nil
		members, err := h.members(ctx, string(u.FirmwareInventory))
		for _, member := range paths(members) {
			one := &software{path: member}
			if err = h.get(ctx, member, one); err != nil {
				break
			}
			one.Version = strings.TrimSpace(one.Version)
			all = append(all, one)
		}
		if !hasStatus(err, http.StatusNotFound) {
			return all, err
		}
		// An entry that was just replaced is gone: the list is another now.
	}
	return nil, hardware.Refused(device.CodeToolOutputInvalid, "update the BMC's firmware",
		"the BMC's firmware inventory lists entries that it does not have")
}

// notRunning are the beginnings of the Id or Name of an entry that is not the running one:
// what was installed before, copies to recover from, and what is staged.
var notRunning = regexp.MustCompile(`(?i)^(previous|available|rollback|backup|golden|recovery|redundant|` +
	`staging|staged)([-_ ]|$)`)

// isStaged are those of firmware that waits for something.
var isStaged = regexp.MustCompile(`(?i)^(staging|staged)([-_ ]|$)`)

// running: the entry is firmware that runs now.
func (s *software) running() bool {
	if notRunning.MatchString(s.ID) || notRunning.MatchString(s.Name) {
		return false
	}
	return !slices.Contains([]string{"StandbyOffline", "StandbySpare", "Absent", "Disabled"}, s.Status.State)
}

// staged: the entry is firmware that waits for a reset, or to be started.
func (s *software) staged() bool { return isStaged.MatchString(s.ID) || isStaged.MatchString(s.Name) }

// unit is the part of a Dell's Id that stays through updates: Installed-159-2.18.1__BIOS.Setup.1-1.
func (s *software) unit() string {
	_, unit, _ := strings.Cut(s.ID, "__")
	return unit
}

// isCalled: the entry has this name, in its Id, its Name or its SoftwareId.
func (s *software) isCalled(component string) bool {
	for _, name := range []string{s.ID, s.Name, s.unit(), s.SoftwareID} {
		if name != "" && strings.EqualFold(name, component) {
			return true
		}
	}
	return false
}

// usualNames are what vendors call the two components that every server has.
var usualNames = map[string]*regexp.Regexp{
	"bios": regexp.MustCompile(`(?i)^(bios|bios_active|system rom|system bios|host image)$`),
	"bmc": regexp.MustCompile(`(?i)^(bmc|bmc_active|bmc image|ilo( \d+)?|idrac.*|` +
		`integrated dell remote access controller)$`),
}

// isUsually: the entry is what vendors call the component BIOS or BMC.
func (s *software) isUsually(component string) bool {
	names := usualNames[strings.ToLower(component)]
	return names != nil && (names.MatchString(s.ID) || names.MatchString(s.Name))
}

// ofOther: the entry belongs to another system of the same BMC.
func (s *software) ofOther(system string) bool {
	for _, link := range s.RelatedItem {
		if strings.Contains(strings.ToLower(string(link)), "/systems/") && !within(string(link), system) {
			return true
		}
	}
	return false
}

// of: the entry says that it belongs to the system.
func (s *software) of(system string) bool {
	return slices.ContainsFunc(s.RelatedItem, func(of link) bool { return within(string(of), system) })
}

// ofBMC: the entry is the firmware of the BMC itself.
func (s *software) ofBMC() bool {
	return s.isUsually("bmc") || slices.ContainsFunc(s.RelatedItem, func(of link) bool {
		return strings.Contains(strings.ToLower(string(of)), "/managers/")
	})
}

// runningOf finds the entry of a component that runs now. There must be one.
func runningOf(all []*software, component, system string) (*software, error) {
	var found []*software
	for _, matches := range []func(*software) bool{
		func(s *software) bool { return s.isCalled(component) },
		func(s *software) bool { return s.isUsually(component) },
	} {
		for _, s := range all {
			if s.running() && !s.ofOther(system) && matches(s) {
				found = append(found, s)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	if own := slices.DeleteFunc(slices.Clone(found), func(s *software) bool { return !s.of(system) }); len(own) > 0 {
		found = own
	}
	if len(found) == 1 && found[0].Version != "" {
		return found[0], nil
	}
	var names []string
	for _, s := range all {
		if s.running() {
			names = append(names, fmt.Sprintf("%s (%s)", s.ID, s.Name))
		}
	}
	what := "no running firmware of this name, with a version"
	if len(found) > 1 {
		what = fmt.Sprintf("%d of this name", len(found))
	}
	return nil,
		hardware.Refused(device.CodeInvalidSetting, "name the component in the firmware policy by the Id of its entry",
			"component %q: the BMC's firmware inventory has %s; it has %s", component, what,
			hardware.OneLine(strings.Join(names, ", ")))
}
