package oneview

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// The states of a server and of a profile that matter.
const (
	powerOn          = "On"
	powerOff         = "Off"
	applyingProfile  = "ApplyingProfile"
	removingProfile  = "RemovingProfile"
	updatingFirmware = "UpdatingFirmware"
	profileError     = "ProfileError"
	deleting         = "Deleting"
)

// serverHardware is a server as its appliance shows it.
type serverHardware struct {
	URI     string `json:"uri"`
	Name    string `json:"name"`
	Serial  string `json:"serialNumber"`
	UUID    string `json:"uuid"`
	Model   string `json:"model"`
	Power   string `json:"powerState"`
	State   string `json:"state"`
	Profile string `json:"serverProfileUri"`
	Type    string `json:"serverHardwareTypeUri"`
	Group   string `json:"serverGroupUri"`
	Tag     string `json:"eTag"`
	// Modified is when it was last changed, Date when the appliance said all this.
	Modified string `json:"modified"`
	Date     string `json:"-"`
	// answersProfile: the answer has the profile, or null. One without it does not say that there is none.
	answersProfile bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *serverHardware) UnmarshalJSON(text []byte) error {
	type plain serverHardware
	answer := struct {
		*plain
		Profile json.RawMessage `json:"serverProfileUri"`
	}{plain: (*plain)(h)}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Profile == nil {
		return err
	}
	h.answersProfile = true
	return json.Unmarshal(answer.Profile, &h.Profile)
}

// serverProfile is a profile as its appliance shows it.
type serverProfile struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Hardware    string `json:"serverHardwareUri"`
	State       string `json:"state"`
	Task        string `json:"taskUri"`
	InProgress  bool   `json:"inProgress"`
	ETag        string `json:"eTag"`
	Description string `json:"description"`
	Created     string `json:"created"`
}

// busy: a task of the appliance is at work on it.
func (p *serverProfile) busy() bool {
	return p.InProgress || slices.Contains([]string{"Creating", "Updating", deleting, "Removing"}, p.State)
}

// failed: the last task has left it half done.
func (p *serverProfile) failed() bool { return strings.HasSuffix(p.State, "Failed") }

// view is what the appliance shows of a server and of Burnish's profiles.
type view struct {
	hardware serverHardware
	owner    device.Ownership
	// applied is the profile on the server, if it may be Burnish's.
	applied *serverProfile
	// spare is a profile of Burnish's that the server does not have.
	spare *serverProfile
}

func (v view) found() Found {
	return Found{Ownership: v.owner, Profile: v.hardware.Profile, Power: v.hardware.Power, Tag: v.hardware.Tag}
}

// readHardware reads a server, and proves that it is the one that the host saw: who cleans one
// server must not ask about another.
func (c *call) readHardware(ctx context.Context) (serverHardware, error) {
	var h serverHardware
	date, err := c.s.get(ctx, c.server.Hardware, &h)
	if hasStatus(err, http.StatusNotFound) {
		return h, c.s.refused(enrollAgain("server_hardware_uri"), "it has no server %s", c.server.Hardware)
	}
	if err != nil {
		return h, c.s.fault(ctx, err)
	}
	if !hardware.SameSerial(h.Serial, c.server.Serial) {
		return h, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSerialMismatch,
			Message: fmt.Sprintf("the server %s of the appliance %s has the serial number %q, and the host saw %q",
				c.server.Hardware, c.s.name, h.Serial, c.server.Serial),
			Remedy: enrollAgain("server_hardware_uri")}
	}
	if !h.answersProfile {
		return h, &device.Fault{Class: device.Transient, Code: device.CodeToolOutputInvalid,
			Message: fmt.Sprintf("the appliance %s does not say which profile the server %s has", c.s.name, c.server.Hardware)}
	}
	if h.Date = date; c.settings.IgnoreTags {
		h.Tag = ""
	}
	if h.Profile != "" {
		// A profile that cannot be named is another user's.
		if uri := c.s.resource(h.Profile, profilesPath+"/"); uri != "" {
			h.Profile = uri
		}
	}
	return h, nil
}

// look reads who has the server, and where spare is asked for, Burnish's profile that is not
// on it.
func (c *call) look(ctx context.Context, spare func(device.Ownership) bool) (view, error) {
	var v view
	var err error
	for tries := 1; ; tries++ {
		v = view{}
		if v.hardware, err = c.readHardware(ctx); err != nil {
			return v, err
		}
		name := ""
		if v.hardware.Profile == c.server.Recorded || c.server.Applying {
			if v.applied, err = c.profile(ctx, v.hardware.Profile); err != nil {
				return v, err
			}
			if v.applied == nil && c.s.resource(v.hardware.Profile, profilesPath+"/") != "" {
				// It was removed between the two requests, or a moment ago. Who had it is unknown.
				if tries == maxTries {
					return v, &device.Fault{Class: device.Transient, Code: device.CodeApplianceUnreachable,
						Message: fmt.Sprintf("the appliance %s: the server has the profile %s, which does not exist", c.s.name,
							v.hardware.Profile), Remedy: "see the appliance"}
				}
				if err := c.pause(ctx, time.Time{}, 0, "reading who has the server"); err != nil {
					return v, err
				}
				continue
			}
			if v.applied != nil {
				name = v.applied.Name
			}
		}
		v.owner = c.server.Owner(v.hardware.Profile, name)
		break
	}
	if !spare(v.owner) {
		return v, nil
	}
	v.spare, err = c.findSpare(ctx)
	return v, err
}

// profile reads one profile; nil: there is none.
func (c *call) profile(ctx context.Context, uri string) (*serverProfile, error) {
	uri = c.s.resource(uri, profilesPath+"/")
	if uri == "" {
		return nil, nil
	}
	p := &serverProfile{}
	_, err := c.s.get(ctx, uri, p)
	if hasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, c.s.fault(ctx, err)
	}
	p.URI = uri
	return p, nil
}

// findSpare finds a profile of Burnish's by its record or by its name.
func (c *call) findSpare(ctx context.Context) (*serverProfile, error) {
	if c.server.Applying {
		query := url.Values{"filter": {fmt.Sprintf("name='%s'", c.server.UUID)}}
		var page struct {
			Members []*serverProfile `json:"members"`
		}
		if _, err := c.s.get(ctx, profilesPath+"?"+query.Encode(), &page); err != nil {
			return nil, c.s.fault(ctx, err)
		}
		for _, p := range page.Members {
			if p == nil {
				continue
			}
			if p.URI = c.s.resource(p.URI, profilesPath+"/"); c.server.owns(p.URI, p.Name) {
				return p, nil
			}
		}
	}
	return c.profile(ctx, c.server.Recorded)
}

// Read says who has a server. It changes nothing.
func (p *Appliances) Read(ctx context.Context, appliance string, server Server) (Found, error) {
	s, settings, err := p.acquire(ctx, appliance)
	if err != nil {
		return Found{}, err
	}
	defer p.release(ctx, s)
	c, err := newCall(s, server, settings, nil)
	if err != nil {
		return Found{}, err
	}
	v, err := c.look(ctx, func(device.Ownership) bool { return false })
	if err != nil {
		return Found{}, err
	}
	return v.found(), nil
}
