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
		"serialNumber": h.Serial, "model": h.Model, "powerState": h.Power, "powerLock": h.PowerLock,
		"maintenanceMode": false, "serverProfileUri": orNull(h.Profile), "serverHardwareTypeUri": orNull(h.Type),
		"serverGroupUri": orNull(h.Group), "state": h.State, "stateReason": "NotApplicable", "status": h.Status,
		"refreshState": "NotRefreshing", "eTag": strconv.Itoa(h.Version), "modified": timestamp(h.Modified),
	}
}

// putPower changes a server's power in a task.
func (a *Appliance) putPower(c *call, id string) answer {
	h := find(a.Data.Hardware, hardwarePath+"/"+id)
	if h == nil {
		return notFound()
	}
	want, control := c.Text("powerState"), c.Text("powerControl")
	if want != Off && want != On || control != "MomentaryPress" && (want == On || control != "PressAndHold") {
		return invalid(http.StatusBadRequest, "The power operation is not valid.",
			"powerState "+want+", powerControl "+control)
	}
	a.refresh(h)
	powering := slices.ContainsFunc(a.Data.Tasks,
		func(t *Task) bool { return t.Kind == taskPower && t.Server == h.URI() && t.pending() })
	const message = "The power operation request did not succeed."
	switch {
	case h.PowerLock:
		return conflict("POWER_LOCKED", message, "The power of "+h.Name+" is locked.")
	case h.State == applyingProfile || h.State == removingProfile:
		return conflict("SERVER_BUSY", message, "The server hardware "+h.Name+" is in the state "+h.State+".")
	case powering:
		return conflict("SERVER_BUSY", message, "Another power operation of "+h.Name+" is in progress.")
	case want == On && h.Profile == "":
		return conflict("SERVER_HAS_NO_PROFILE", message, "The server hardware "+h.Name+" has no server profile.")
	}
	a.act(c, Powered, h, nil)
	t := a.newTask(c, Task{Name: "Power " + want, Kind: taskPower, Server: h.URI(), Power: want, Control: control})
	t.Due = c.At // it begins at once: what was checked holds
	a.advance(c.At)
	return a.accepted(c, t)
}
