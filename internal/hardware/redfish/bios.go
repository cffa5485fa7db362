package redfish

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// biosState is all that a BMC shows of the BIOS: what is in force, what is wanted and by which
// jobs. Neither alone says enough: some show what is pending as if it were in force.
type biosState struct {
	path string
	bios bios
	// settings is the resource that takes what is wanted; "" where there is none.
	settings     string
	settingsBIOS bios
	registry     registry // nil: the BMC has none
	// jobs are the BIOS jobs and tasks that have not ended.
	jobs []*task
}

// bios is what the driver reads of a Bios resource, and of its settings.
type bios struct {
	AttributeRegistry string
	Attributes        attributes // nil: the BMC does not show them
	Settings          struct {
		Object link `json:"SettingsObject"`
	} `json:"@Redfish.Settings"`
	Actions struct {
		Reset actionTarget `json:"#Bios.ResetBios" bmc:"optional"`
		Oem   struct {
			ClearPending actionTarget `json:"#DellManager.ClearPending" bmc:"optional"`
		} `bmc:"optional"`
	} `bmc:"optional"`
}

type actionTarget struct {
	Target link `json:"target" bmc:"optional"`
}

// pending are the attributes that somebody wants and that are not in force.
func (s *biosState) pending() attributes {
	if s.bios.Attributes == nil || s.settings == "" || s.settings == s.path {
		return nil
	}
	return pendingIn(s.settingsBIOS.Attributes, s.bios.Attributes, s.registry)
}

// readBIOS reads the state of the BIOS.
func (h *handle) readBIOS(ctx context.Context) (*biosState, error) {
	// The jobs first: one that ends after this has its result in what is read next.
	all, err := h.tasks(ctx)
	if err != nil {
		return nil, err
	}
	return h.readBIOSAfter(ctx, all)
}

// readBIOSShown reads the BIOS; nil: the BMC shows none.
func (h *handle) readBIOSShown(ctx context.Context) (*biosState, error) {
	s, err := h.readBIOS(ctx)
	if f, is := device.AsFault(err); is && f.Code == device.CodeCommandRefused || refusedRead(err) {
		return nil, nil
	}
	return s, err
}

// readBIOSAfter reads the BIOS after the BMC's tasks; beside an error of its registry, without that.
func (h *handle) readBIOSAfter(ctx context.Context, all []*task) (*biosState, error) {
	system, err := h.known(ctx)
	if err == nil && system.Bios == "" {
		system, err = h.readSystem(ctx)
	}
	if err != nil {
		return nil, err
	}
	s := &biosState{path: string(system.Bios)}
	if s.path == "" {
		return nil, hardware.Refused(device.CodeCommandRefused, "update the BMC's firmware, or disable the step",
			"the BMC shows no BIOS of %s", h.system)
	}
	s.jobs = slices.DeleteFunc(slices.Clone(all), func(t *task) bool { return !t.changesBIOS() || t.isAnothers(h.system) })
	if err := h.get(ctx, s.path, &s.bios); err != nil {
		return nil, err
	}
	if s.settings = string(s.bios.Settings.Object); s.settings != "" {
		if err := h.get(ctx, s.settings, &s.settingsBIOS); err != nil {
			return nil, err
		}
	}
	s.registry, err = h.readRegistry(ctx, s.bios.AttributeRegistry)
	return s, err
}

// readRegistry reads the attribute registry of this name; nil where the BMC has none. It is large, and
// read once.
func (h *handle) readRegistry(ctx context.Context, name string) (registry, error) {
	if known, is := h.registries[name]; is || name == "" {
		return known, nil
	}
	file, err := h.findRegistry(ctx, name)
	var body registryFile
	if err == nil && file != "" {
		err = h.get(ctx, file, &body)
	}
	if err != nil && !hasStatus(err, http.StatusNotFound) {
		return nil, err
	}
	h.registries[name] = body.registry()
	return h.registries[name], nil
}

// findRegistry gives the path of the registry itself, "" where the BMC does not have it.
func (h *handle) findRegistry(ctx context.Context, name string) (string, error) {
	files, err := h.members(ctx, "/redfish/v1/Registries")
	if err != nil {
		return "", err
	}
	// The name is the file's, but for its version on some BMCs.
	plain, _, _ := strings.Cut(name, ".")
	isCalled := func(name string) func(link) bool {
		return func(l link) bool { return strings.EqualFold(path.Base(string(l)), name) }
	}
	i := slices.IndexFunc(files, isCalled(name))
	if i < 0 {
		i = slices.IndexFunc(files, isCalled(plain))
	}
	if i < 0 {
		return "", nil
	}
	var file struct {
		Location []struct {
			URI link `json:"Uri" bmc:"optional"`
		}
	}
	if err := h.get(ctx, string(files[i]), &file); err != nil {
		return "", err
	}
	for _, l := range file.Location { // in whatever language: names and defaults are the same
		if l.URI != "" {
			return string(l.URI), nil
		}
	}
	return "", nil
}

// patch is the request for these attributes at the next reset. Without the apply time an iDRAC
// keeps them pending through every reset.
func (s *biosState) patch(all attributes) *request {
	return &request{Method: http.MethodPatch, Path: cmp.Or(s.settings, s.path), Body: map[string]any{
		"Attributes": all, "@Redfish.SettingsApplyTime": onReset,
	}}
}

// onReset is the apply time of what comes into force at the next start.
var onReset = map[string]any{"@odata.type": "#Settings.v1_3_0.PreferredApplyTime", "ApplyTime": "OnReset"}

// listed is a few of many differences, for a message.
func listed(differ []string) string {
	const most = 8
	if len(differ) > most {
		return strings.Join(differ[:most], "; ") + "; and more"
	}
	return strings.Join(differ, "; ")
}
