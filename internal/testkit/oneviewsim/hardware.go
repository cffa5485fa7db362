package oneviewsim

import (
	"net/http"
	"slices"
	"strconv"
)

func (a *Appliance) hardwareDoc(h *Hardware) map[string]any {
	a.refresh(h)
	return map[string]any{
		"type": "server-hardware-14", "category": "server-hardware", "uri": h.URI(), "uuid": h.UUID, "name": h.Name,
		"serialNumber": h.Serial, "virtualSerialNumber": nil, "model": h.Model, "powerState": h.Power, "powerLock": h.PowerLock,
		"maintenanceMode": h.MaintenanceMode, "serverProfileUri": orNull(h.Profile), "serverHardwareTypeUri": orNull(h.Type),
		"serverGroupUri": orNull(h.Group), "state": h.State, "stateReason": h.StateReason, "status": h.Status,
		"refreshState": h.RefreshState, "eTag": strconv.Itoa(h.Version), "licensingIntent": "OneView", "position": 0,
		"modified": timestamp(h.Modified),
	}
}

func (a *Appliance) hardwareList(c *call) answer {
	return a.list(c, "server-hardware-list-14", "server-hardware", hardwarePath, len(a.state.Hardware),
		func(i int) map[string]any {
			return a.hardwareDoc(a.state.Hardware[i])
		})
}

func (a *Appliance) hardwareOne(c *call) answer {
	if h := a.hardware[hardwarePath+"/"+c.id]; h != nil {
		return tagged(ok(a.hardwareDoc(h)))
	}
	return notFound(c.request.URL.Path)
}

// tagged adds the header of the document's eTag.
func tagged(a answer) answer {
	a.header = map[string]string{"ETag": strconv.Quote(text(a.body, "eTag"))}
	return a
}

// powerControls are those of each wanted state; the first is what is meant without one.
var powerControls = map[string][]string{
	On:  {"MomentaryPress", "ColdBoot", "Reset"},
	Off: {"MomentaryPress", "PressAndHold"},
}

// putPower changes a server's power in a task.
func (a *Appliance) putPower(c *call) answer {
	h := a.hardware[hardwarePath+"/"+c.id]
	if h == nil {
		return notFound(c.request.URL.Path)
	}
	want, control := text(c.json, "powerState"), text(c.json, "powerControl")
	if control == "" {
		control = "MomentaryPress"
	}
	if !slices.Contains(powerControls[want], control) {
		return invalid(http.StatusBadRequest, "The power operation is not valid.", "powerState "+want+
			", powerControl "+control)
	}
	a.refresh(h)
	conflict := func(code, details string) answer {
		return refuse(http.StatusConflict,
			problem(code, "The power operation request did not succeed.", details, "Retry the operation later."))
	}
	switch {
	case h.PowerLock:
		return conflict("POWER_LOCKED", "The power of "+h.Name+" is locked.")
	case h.State == ApplyingProfile || h.State == RemovingProfile || h.State == "UpdatingFirmware":
		return conflict("SERVER_BUSY", "The server hardware "+h.Name+" is in the state "+h.State+".")
	case a.powering(h) != nil:
		return conflict("SERVER_BUSY", "Another power operation of "+h.Name+" is in progress.")
	case want == On && h.Profile == "" && a.config.PowerNeedsProfile:
		return conflict("SERVER_HAS_NO_PROFILE", "The server hardware "+h.Name+" has no server profile.")
	case h.Power != On && (control == "ColdBoot" || control == "Reset"):
		return conflict("SERVER_NOT_ON", "The server hardware "+h.Name+" is "+h.Power+".")
	}
	task := a.newTask(c, "Power "+want, taskPower, h.URI(), h.Name)
	task.Server, task.Power, task.Control = h.URI(), want, control
	a.act(c, Powered, h, nil)
	return a.accepted(c, task)
}

// powering is the power task of a server that goes on; nil: there is none.
func (a *Appliance) powering(h *Hardware) *Task {
	for i := len(a.state.Tasks) - 1; i >= 0; i-- {
		if t := a.state.Tasks[i]; t.Kind == taskPower && t.Server == h.URI() && t.pending() {
			return t
		}
	}
	return nil
}

func (a *Appliance) templateDoc(t *Template) map[string]any {
	return map[string]any{
		"type": "ServerProfileTemplateV8", "category": "server-profile-templates", "uri": t.URI(), "name": t.Name,
		"description": t.Description, "serverHardwareTypeUri": orNull(t.Type), "enclosureGroupUri": orNull(t.Group),
		"state": nil, "status": "OK", "eTag": "1",
	}
}

func (a *Appliance) templateList(c *call) answer {
	return a.list(c, "ServerProfileTemplateListV8", "server-profile-templates", templatesPath, len(a.state.Templates),
		func(i int) map[string]any {
			return a.templateDoc(a.state.Templates[i])
		})
}

func (a *Appliance) templateOne(c *call) answer {
	if t := a.templates[templatesPath+"/"+c.id]; t != nil {
		return tagged(ok(a.templateDoc(t)))
	}
	return notFound(c.request.URL.Path)
}

// newProfile is a profile as the template has it: who wants it fills in the name and the
// server, and posts it.
func (a *Appliance) newProfile(c *call) answer {
	t := a.templates[templatesPath+"/"+c.id]
	if t == nil {
		return notFound(c.request.URL.Path)
	}
	return ok(map[string]any{
		"type": "ServerProfileV12", "category": "server-profiles", "uri": nil, "name": nil, "description": "",
		"serverProfileTemplateUri": t.URI(), "serverHardwareUri": nil, "serverHardwareTypeUri": orNull(t.Type),
		"enclosureGroupUri": orNull(t.Group), "affinity": "Bay", "hideUnusedFlexNics": true,
		"bios":     map[string]any{"manageBios": false, "overriddenSettings": []any{}},
		"firmware": map[string]any{"manageFirmware": false}, "state": nil, "status": nil, "eTag": nil,
	})
}
