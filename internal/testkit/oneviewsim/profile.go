package oneviewsim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (a *Appliance) profileDoc(p *Profile) map[string]any {
	return map[string]any{
		"type": "ServerProfileV12", "category": "server-profiles", "uri": p.URI(), "uuid": p.ID, "name": p.Name,
		"description": p.Description, "serverProfileTemplateUri": orNull(p.Template),
		"serverHardwareUri": orNull(p.Hardware), "state": p.State, "status": p.Status, "taskUri": orNull(p.Task),
		"inProgress": p.busy(), "created": timestamp(p.Created), "modified": timestamp(p.Modified),
		"serverHardwareTypeUri": orNull(p.Type), "enclosureGroupUri": orNull(p.Group), "eTag": strconv.Itoa(p.Version),
	}
}

// newProfile is a profile as the template has it: who wants it fills in the name and the
// server, and posts it.
func (a *Appliance) newProfile(c *call, _ string) answer {
	if strings.TrimSuffix(c.URL.Path, "/new-profile") != TemplateURI {
		return notFound()
	}
	return ok(map[string]any{
		"type": "ServerProfileV12", "category": "server-profiles", "uri": nil, "name": nil, "description": "",
		"serverProfileTemplateUri": TemplateURI, "serverHardwareUri": nil,
		"serverHardwareTypeUri": a.Data.Hardware[0].Type, "enclosureGroupUri": a.Data.Hardware[0].Group,
		"bios":     map[string]any{"manageBios": false, "overriddenSettings": []any{}},
		"firmware": map[string]any{"manageFirmware": false}, "state": nil, "status": nil, "eTag": nil,
	})
}

// Wanted is what a profile shall be.
type Wanted struct{ Name, Description, Server, Template string }

// createProfile accepts a profile. A URI that leads nowhere is refused with 400.
func (a *Appliance) createProfile(c *call, _ string) answer {
	w := Wanted{Name: c.Text("name"), Description: c.Text("description"), Server: c.Text("serverHardwareUri"),
		Template: c.Text("serverProfileTemplateUri")}
	h, wrong := find(a.Data.Hardware, w.Server), ""
	switch {
	case !strings.HasPrefix(c.Text("type"), "ServerProfileV"):
		wrong = fmt.Sprintf("The \"type\" field content, %q, included in this request is invalid.", c.Text("type"))
	case w.Name == "":
		wrong = "The server profile has no name."
	case h == nil:
		wrong = "The server hardware " + w.Server + " does not exist."
	case w.Template != "" && w.Template != TemplateURI:
		wrong = "The server profile template " + w.Template + " does not exist."
	}
	if wrong != "" {
		return invalid(http.StatusBadRequest, "The server profile is not valid.", wrong)
	}
	a.act(c, Created, h, nil)
	return a.accepted(c, a.newTask(c, Task{Name: "Create", Kind: taskCreate, Want: w, Server: w.Server}))
}

// reference is how messages name a server.
func reference(h *Hardware) string { return fmt.Sprintf(`{"name":%q, "uri":%q}`, h.Name, h.URI()) }

// createProblem is why a profile cannot be created now; nil: it can.
func (a *Appliance) createProblem(w Wanted, h *Hardware) *Problem {
	for _, p := range a.Data.Profiles {
		if strings.EqualFold(p.Name, w.Name) {
			return problem("ProfileNameAlreadyExists", "A server profile with the name "+w.Name+" already exists.", "")
		}
	}
	switch a.refresh(h); {
	case h.Profile != "":
		return problem("ProfileAlreadyExistsInServer", "A profile is already assigned to "+reference(h)+".", "")
	case h.State != NoProfileApplied:
		return problem("ServerNotAvailable", "The server hardware "+reference(h)+" is in the state "+h.State+".", "")
	}
	return a.notOff(h)
}

// notOff is why a profile's operation fails; nil: the server is off.
func (a *Appliance) notOff(h *Hardware) *Problem {
	if a.refresh(h); h.Power == Off {
		return nil
	}
	return problem("ServerNotOff", "The server hardware "+reference(h)+" is powered on.", "")
}

func (a *Appliance) deleteProfile(c *call, id string) answer {
	p := find(a.Data.Profiles, profilesPath+"/"+id)
	if p == nil {
		return notFound()
	}
	given := strings.Trim(c.Header.Get("If-Match"), `"`)
	switch {
	case given != "" && given != "*" && given != strconv.Itoa(p.Version):
		return mismatch()
	case p.busy():
		return conflict("PROFILE_BUSY", "The server profile "+p.Name+" is in the state "+p.State+".", "")
	}
	a.act(c, Deleted, find(a.Data.Hardware, p.Hardware), p)
	return a.accepted(c, a.newTask(c, Task{Name: "Delete", Kind: taskDelete, Profile: p.URI(), Server: p.Hardware}))
}

// addProfile creates one at once.
func (a *Appliance) addProfile(w Wanted, h *Hardware, owner string, at time.Time) *Profile {
	n := a.number()
	p := &Profile{
		ID: fmt.Sprintf("%08x-0000-4000-9000-%012x", n, n), Name: w.Name, Description: w.Description, Owner: owner,
		Template: w.Template, Hardware: h.URI(), Type: h.Type, Group: h.Group, State: Normal, Status: "OK",
		Created: at, Modified: at, Version: 1,
	}
	a.Data.Profiles = append(a.Data.Profiles, p)
	h.Profile = p.URI()
	a.changed(h)
	return p
}

// removeFrom takes a profile from its server, and away.
func (a *Appliance) removeFrom(p *Profile, h *Hardware) {
	if h != nil && h.Profile == p.URI() {
		h.Profile, h.State = "", NoProfileApplied
		a.changed(h)
	}
	a.removeProfile(p)
}
