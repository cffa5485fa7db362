package redfish

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// tpmWay is how the BIOS of a vendor clears the TPM at its next start: Redfish has no action for it. The
// attribute then goes back to what it was by itself, which is the only sign that the clear was carried out.
type tpmWay struct {
	// attribute is what is set to value; a name with * at its end is the beginning of one.
	attribute, value string
	// with are set in the same request, ready before it, with a restart of their own; where the BIOS has them.
	with, ready attributes
	// direct: it is written to the BIOS itself, and its settings only show it.
	direct bool
}

// tpmWays are the vendors' ways; docs/redfish.md names the sources.
var tpmWays = []tpmWay{
	// Without TpmPpiBypassClear the next start waits at the console for somebody who agrees.
	{attribute: "Tpm2Hierarchy", value: "Clear", with: attributes{"TpmSecurity": "On"},
		ready: attributes{"TpmPpiBypassClear": "Enabled"}}, // Dell
	{attribute: "Tpm2Operation", value: "Clear", with: attributes{"TpmVisibility": "Visible"}}, // HPE
	{attribute: "PendingOperation*", value: "TPM Clear", direct: true},                         // Supermicro
	{attribute: "TrustedComputingGroup_DeviceOperation", value: "Clear"},                       // Lenovo
	{attribute: "TpmOperation", value: "TPM Clear", with: attributes{"TpmSupport": "Enable"}},  // AMI
}

// tpmStage is how far the clear is.
type tpmStage string

const (
	// tpmReady: what must be in force before was asked for.
	tpmReady tpmStage = "ready"
	// tpmAsked: the BIOS has shown that it waits for the next start.
	tpmAsked tpmStage = "asked"
)

// tpmWay gives the way of this BIOS, with the whole name of its attribute; nil: it has none.
func (s *biosState) tpmWay() *tpmWay {
	names := append(s.bios.Attributes.names(), s.settingsBIOS.Attributes.names()...)
	for _, way := range tpmWays {
		prefix, many := strings.CutSuffix(way.attribute, "*")
		i := slices.IndexFunc(names, func(name string) bool {
			return name == prefix || many && strings.HasPrefix(name, prefix)
		})
		if i >= 0 {
			way.attribute = names[i]
			return &way
		}
	}
	return nil
}

// lacking are those of the attributes that the BIOS has with another value.
func (s *biosState) lacking(wanted attributes) attributes {
	lacking := attributes{}
	for name, value := range wanted {
		if is, has := s.bios.Attributes[name]; has && !sameValue(is, value) {
			lacking[name] = value
		}
	}
	return lacking
}

// waits: the settings show that the TPM is to be cleared.
func (s *biosState) waits(way *tpmWay) bool {
	is := s.bios.Attributes[way.attribute]
	if pending, has := s.settingsBIOS.Attributes[way.attribute]; has {
		is = pending
	}
	return sameValue(is, way.value)
}

// readTPMState reads the BIOS and its way; nil: the BMC offers none.
func (h *handle) readTPMState(ctx context.Context) (*biosState, *tpmWay, error) {
	state, err := h.readBIOSShown(ctx)
	if err != nil || state == nil {
		return nil, nil, err
	}
	return state, state.tpmWay(), nil
}

// askTPM asks the BIOS to clear the TPM, and sees that it waits for the next start. What must be in force
// before it is asked for first, and needs a restart of its own. later: the BMC refuses it for now.
func (r *restorer) askTPM(ctx context.Context, a *asked, own bool, before asked) (later bool, err error) {
	state, way, err := r.h.readTPMState(ctx)
	if err != nil || way == nil {
		return true, err
	}
	set := state.lacking(way.ready)
	a.TPM, a.Before = tpmReady, valueText(state.bios.Attributes[way.attribute])
	switch {
	case len(set) > 0 && own && before.TPM == tpmReady:
		return false, notCleared("the BIOS has not taken %s", listed(set.names()))
	case len(set) == 0 && sameValue(a.Before, way.value):
		return false, notCleared("%s is %q already, and does not go back", way.attribute, a.Before)
	case len(set) == 0:
		a.TPM, set = tpmAsked, state.lacking(way.with)
		set[way.attribute] = way.value
	}
	if err := r.h.progress(r.run, 10, "asks to clear the TPM"); err != nil {
		return false, err
	}
	patch := state.patch(set)
	if way.direct {
		patch.Path = state.path
	}
	refusedWith, err := r.h.sendPatiently(ctx, r.run, []request{*patch}, true, own)
	switch {
	case err != nil:
		return false, err
	case refusedWith != nil && !own:
		return true, nil
	case refusedWith != nil:
		return false, notCleared("the BMC refuses it: %s", refusedWith.Error())
	case a.TPM == tpmReady:
		return false, nil
	}
	return false, r.h.until(ctx, r.run, r.h.driver.timing.settle, func() (bool, string, error) {
		state, err := r.h.readBIOS(ctx)
		return err == nil && state.waits(way), "waits until the BIOS shows that it is to clear the TPM", err
	}, func() error {
		return notCleared("the BMC has accepted it, and its BIOS does not show that %s is to be %s", way.attribute, way.value)
	})
}

// tpmCleared says whether the TPM was cleared: the BIOS was seen to wait for the start, the server was
// started, and the attribute is what it was before.
func (r *restorer) tpmCleared(ctx context.Context, c *coverage) (bool, error) {
	state, way, err := r.h.readTPMState(ctx)
	if err != nil {
		return false, err
	}
	was := r.rec.Asked[stepTPMClear]
	switch {
	case way == nil && was.TPM == "":
		c.missing = append(c.missing, device.SetupTPM)
		return true, nil
	case was.TPM != tpmAsked:
		return false, nil
	case way == nil || state.waits(way) || !sameValue(state.bios.Attributes[way.attribute], was.Before):
		return false, notCleared("after the restart, the BIOS does not show that it was done")
	}
	c.same = slices.DeleteFunc(c.same, func(item string) bool { return item == device.SetupTPM })
	c.restored = append(c.restored, fmt.Sprintf("%s (by the word of the BIOS: %s was %s, and is %s again)",
		device.SetupTPM, way.attribute, way.value, cmp.Or(was.Before, "unset")))
	return true, nil
}

func notCleared(format string, args ...any) error {
	return hardware.Refused(device.CodeTPMNotCleared,
		"see the server's console and its BIOS, clear the TPM there or correct the cause, then clean the server",
		"the TPM was not cleared: "+format, args...)
}
