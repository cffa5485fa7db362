package oneviewsim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The states of a profile.
const (
	Creating     = "Creating"
	CreateFailed = "CreateFailed"
	Normal       = "Normal"
	Updating     = "Updating"
	UpdateFailed = "UpdateFailed"
	Deleting     = "Deleting"
	DeleteFailed = "DeleteFailed"
)

func (a *Appliance) profileDoc(p *Profile) map[string]any {
	serial := any(nil)
	if h := a.hardware[p.Hardware]; h != nil {
		serial = h.Serial
	}
	return map[string]any{
		"type": "ServerProfileV12", "category": "server-profiles", "uri": p.URI(), "uuid": p.ID, "name": p.Name, "description": p.Description,
		"serverProfileTemplateUri": orNull(p.Template), "serverHardwareUri": orNull(p.Hardware), "serverHardwareTypeUri": orNull(p.Type),
		"enclosureGroupUri": orNull(p.Group), "serialNumber": serial, "state": p.State, "status": p.Status, "taskUri": orNull(p.Task),
		"inProgress": p.busy(), "affinity": "Bay", "created": timestamp(p.Created), "modified": timestamp(p.Modified),
		"eTag": strconv.Itoa(p.Version), "templateCompliance": "Compliant",
	}
}

func (p *Profile) busy() bool {
	return p.State == Creating || p.State == Updating || p.State == Deleting
}

func (a *Appliance) profileList(c *call) answer {
	return a.list(c, "ServerProfileListV12", "server-profiles", profilesPath, len(a.state.Profiles),
		func(i int) map[string]any {
			return a.profileDoc(a.state.Profiles[i])
		})
}

func (a *Appliance) profileOne(c *call) answer {
	if p := a.profiles[profilesPath+"/"+c.id]; p != nil {
		return tagged(ok(a.profileDoc(p)))
	}
	return notFound(c.request.URL.Path)
}

// Wanted is what a profile shall be.
type Wanted struct {
	Name, Description, Server, Template, Type, Group string
}

// wanted reads a profile that was sent. A URI that leads nowhere is refused with 400.
func (a *Appliance) wanted(c *call) (Wanted, answer, bool) {
	w := Wanted{
		Name: text(c.json, "name"), Description: text(c.json, "description"), Server: text(c.json, "serverHardwareUri"),
		Template: text(c.json, "serverProfileTemplateUri"), Type: text(c.json, "serverHardwareTypeUri"),
		Group: text(c.json, "enclosureGroupUri"),
	}
	bad := func(details string) (Wanted, answer, bool) {
		return w, invalid(http.StatusBadRequest, "The server profile is not valid.", details), false
	}
	switch {
	case !strings.HasPrefix(text(c.json, "type"), "ServerProfileV"):
		return bad(fmt.Sprintf("The \"type\" field content, %q, included in this request is invalid.", text(c.json, "type")))
	case w.Name == "":
		return bad("The server profile has no name.")
	case w.Server != "" && a.hardware[w.Server] == nil:
		return bad("The server hardware " + w.Server + " does not exist.")
	case w.Template != "" && a.templates[w.Template] == nil:
		return bad("The server profile template " + w.Template + " does not exist.")
	case w.Server == "" && w.Type == "":
		return bad("The server profile has neither server hardware nor a server hardware type.")
	}
	if h := a.hardware[w.Server]; h != nil {
		if w.Type != "" && w.Type != h.Type {
			return bad("The server hardware " + h.Name + " is of another type.")
		}
		w.Type, w.Group = h.Type, h.Group
	}
	return w, answer{}, true
}

func (a *Appliance) createProfile(c *call) answer {
	w, refused, valid := a.wanted(c)
	if !valid {
		return refused
	}
	if p := a.createProblem(w); p != nil && a.config.RefuseAtOnce {
		return refuse(http.StatusConflict, *p)
	}
	task := a.newTask(c, "Create", taskCreate, "", w.Name)
	task.Want, task.Server = w, w.Server
	h := a.hardware[w.Server]
	a.act(c, Created, h, &Profile{Name: w.Name, Owner: c.user})
	if h != nil {
		a.state.Acts[len(a.state.Acts)-1].Profile = h.Profile
	}
	return a.accepted(c, task)
}

// reference is how messages name a server.
func reference(h *Hardware) string { return fmt.Sprintf(`{"name":%q, "uri":%q}`, h.Name, h.URI()) }

// createProblem is why a profile cannot be created now; nil: it can.
func (a *Appliance) createProblem(w Wanted) *Problem {
	if p := a.nameProblem(w.Name, nil); p != nil {
		return p
	}
	return a.assignProblem(w.Server)
}

func (a *Appliance) nameProblem(name string, except *Profile) *Problem {
	for _, p := range a.state.Profiles {
		if strings.EqualFold(p.Name, name) && p != except && !a.config.NamesRepeat {
			p := problem("ProfileNameAlreadyExists", "A server profile with the name "+name+" already exists.",
				"Profile names must be unique.",
				"Specify another name and retry the operation.")
			return &p
		}
	}
	return nil
}

// assignProblem is why a profile cannot be put on a server now.
func (a *Appliance) assignProblem(server string) *Problem {
	h := a.hardware[server]
	if h == nil {
		return nil // it is not assigned
	}
	a.refresh(h)
	var p Problem
	switch {
	case h.Profile != "":
		p = problem("ProfileAlreadyExistsInServer", "A profile is already assigned to the server hardware "+
			reference(h)+".", "",
			"Select other server hardware, or unassign the profile and retry the operation.")
	case h.State != NoProfileApplied:
		p = problem("ServerNotAvailable", "The server hardware "+reference(h)+" is in the state "+h.State+".", "",
			"Retry the operation later.")
	case h.Power != Off:
		return notOff(h)
	default:
		return nil
	}
	return &p
}

func notOff(h *Hardware) *Problem {
	p := problem("ServerNotOff", "The profile operation did not succeed because server hardware "+reference(h)+
		" is powered on.", "",
		"Power off the server and retry the operation.")
	return &p
}

// matched is why a request does not concern the profile as it is now.
func (a *Appliance) matched(c *call, p *Profile) (answer, bool) {
	given := strings.Trim(c.request.Header.Get("If-Match"), `"`)
	if given == "" {
		given = text(c.json, "eTag")
	}
	switch {
	case given == "" && c.request.Method == http.MethodPut && a.config.RequireIfMatch:
		return refuse(http.StatusForbidden,
			problem("ETAG_REQUIRED", "An If-Match header and an ETag are required for updates.", "",
				"Read the resource and resend the request with its ETag.")), false
	case given != "" && given != "*" && given != strconv.Itoa(p.Version):
		return refuse(http.StatusPreconditionFailed, problem("ETAG_MISMATCH", "The resource was changed by another user.",
			"The ETag does not match that of the resource.", "Read the resource and retry the operation.")), false
	case p.busy():
		return refuse(http.StatusConflict,
			problem("PROFILE_BUSY", "The server profile "+p.Name+" is in the state "+p.State+".",
				"Another operation is in progress.", "Retry the operation later.")), false
	}
	return answer{}, true
}

func (a *Appliance) updateProfile(c *call) answer {
	p := a.profiles[profilesPath+"/"+c.id]
	if p == nil {
		return notFound(c.request.URL.Path)
	}
	if refused, matches := a.matched(c, p); !matches {
		return refused
	}
	w, refused, valid := a.wanted(c)
	if !valid {
		return refused
	}
	if why := a.updateProblem(p, w); why != nil && a.config.RefuseAtOnce {
		return refuse(http.StatusConflict, *why)
	}
	task := a.newTask(c, "Update", taskUpdate, p.URI(), p.Name)
	task.Want, task.Server, task.Profile = w, w.Server, p.URI()
	a.act(c, Updated, a.hardware[p.Hardware], p)
	return a.accepted(c, task)
}

func (a *Appliance) updateProblem(p *Profile, w Wanted) *Problem {
	if why := a.nameProblem(w.Name, p); why != nil || w.Server == p.Hardware {
		return why
	}
	if h := a.hardware[p.Hardware]; h != nil {
		if a.refresh(h); h.Power != Off {
			return notOff(h)
		}
	}
	return a.assignProblem(w.Server)
}

func (a *Appliance) deleteProfile(c *call) answer {
	p := a.profiles[profilesPath+"/"+c.id]
	if p == nil {
		return notFound(c.request.URL.Path)
	}
	if refused, matches := a.matched(c, p); !matches {
		return refused
	}
	force := c.request.URL.Query().Get("force") == "true"
	if why := a.deleteProblem(p, force); why != nil && a.config.RefuseAtOnce {
		return refuse(http.StatusConflict, *why)
	}
	task := a.newTask(c, "Delete", taskDelete, p.URI(), p.Name)
	task.Profile, task.Server, task.Force = p.URI(), p.Hardware, force
	a.act(c, Deleted, a.hardware[p.Hardware], p)
	return a.accepted(c, task)
}

func (a *Appliance) deleteProblem(p *Profile, force bool) *Problem {
	h := a.hardware[p.Hardware]
	if h == nil || force {
		return nil
	}
	if a.refresh(h); h.Power != Off {
		return notOff(h)
	}
	return nil
}

// assign puts a profile on a server, or takes it from there: h is nil then.
func (a *Appliance) assign(p *Profile, h *Hardware) {
	if before := a.hardware[p.Hardware]; before != nil {
		before.Profile, before.State = "", NoProfileApplied
		a.touch(before)
	}
	p.Hardware = ""
	if h != nil {
		p.Hardware, h.Profile = h.URI(), p.URI()
		a.touch(h)
	}
	a.touch(p)
}

// addProfile creates one at once.
func (a *Appliance) addProfile(w Wanted, owner string, at time.Time) *Profile {
	n := a.number()
	p := &Profile{
		ID: fmt.Sprintf("%08x-0000-4000-9000-%012x", n, n), Name: w.Name, Description: w.Description, Owner: owner,
		Template: w.Template, Type: w.Type, Group: w.Group, State: Normal, Status: "OK", Created: at, Modified: at,
	}
	a.state.Profiles, a.profiles[p.URI()] = append(a.state.Profiles, p), p
	a.assign(p, a.hardware[w.Server])
	return p
}
