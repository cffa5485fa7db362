package redfish

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

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
	// jobs are the BIOS jobs that have not ended.
	jobs []biosJob
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

// wantedByJob are the attributes that a job brings into force. While it waits, the BIOS may show
// them as if they were in force already; a BMC that does so has nothing else in its settings.
func (s *biosState) wantedByJob() attributes {
	for name := range s.bios.Attributes {
		if _, ok := s.settingsBIOS.Attributes[name]; !ok {
			return s.settingsBIOS.Attributes
		}
	}
	return s.pending()
}

// readBIOS reads the state of the BIOS. The registry, which is large, is read once a step.
func (h *handle) readBIOS(ctx context.Context, known *biosState) (*biosState, error) {
	system, err := h.c.readSystem(ctx, h.system)
	if err != nil {
		return nil, err
	}
	s := &biosState{path: string(system.Bios)}
	if s.path == "" {
		return nil, hardware.Refused(device.CodeCommandRefused, "update the BMC's firmware, or disable the step",
			"the BMC shows no BIOS of %s", h.system)
	}
	// The jobs first: one that ends after this has its result in what is read next.
	if s.jobs, err = h.biosJobs(ctx, system); err != nil {
		return nil, err
	}
	if err := h.c.get(ctx, s.path, &s.bios); err != nil {
		return nil, err
	}
	if s.settings = string(s.bios.Settings.Object); s.settings != "" {
		if err := h.c.get(ctx, s.settings, &s.settingsBIOS); err != nil {
			return nil, err
		}
	}
	if known != nil {
		s.registry = known.registry
		return s, nil
	}
	s.registry, err = h.readRegistry(ctx, s.bios.AttributeRegistry)
	return s, err
}

// readRegistry reads the attribute registry of this name; nil where the BMC has none.
func (h *handle) readRegistry(ctx context.Context, name string) (registry, error) {
	if name == "" {
		return nil, nil
	}
	file, err := h.findRegistry(ctx, name)
	if err != nil || file == "" {
		return nil, err
	}
	var body registryFile
	err = h.c.get(ctx, file, &body)
	if hasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return body.registry(), err
}

// findRegistry gives the path of the registry itself, "" where the BMC does not have it.
func (h *handle) findRegistry(ctx context.Context, name string) (string, error) {
	files, err := h.c.members(ctx, "/redfish/v1/Registries")
	if hasStatus(err, http.StatusNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// The name is the file's, but for its version on some BMCs.
	plain, _, _ := strings.Cut(name, ".")
	rank := func(file string) int {
		base := path.Base(strings.TrimSuffix(file, "/"))
		switch {
		case strings.EqualFold(base, name):
			return 0
		case strings.EqualFold(base, plain):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(files, func(a, b string) int { return rank(a) - rank(b) })
	if len(files) == 0 || rank(files[0]) == 2 {
		return "", nil
	}
	var file struct {
		Location []struct {
			Language string `bmc:"optional"`
			URI      link   `json:"Uri" bmc:"optional"`
		}
	}
	if err := h.c.get(ctx, files[0], &file); err != nil {
		return "", err
	}
	found := ""
	for _, l := range file.Location {
		if l.URI != "" && (found == "" || strings.HasPrefix(strings.ToLower(l.Language), "en")) {
			found = string(l.URI)
		}
	}
	return found, nil
}

// biosJob is a job or task that changes the BIOS settings and has not ended.
type biosJob struct {
	path, name string
	// waits: it begins at the next reset of the server.
	waits bool
}

// biosJobs finds them among the BMC's tasks and, on an iDRAC, among its jobs, which say more.
func (h *handle) biosJobs(ctx context.Context, s *system) ([]biosJob, error) {
	dell, has, err := h.dellJobs(ctx, s)
	if err != nil || has {
		return dell, err
	}
	all, err := h.c.tasks(ctx)
	if err != nil {
		return nil, err
	}
	var jobs []biosJob
	for _, t := range all {
		if t.active() && t.changesBIOS() {
			waits := slices.Contains([]redfish.TaskState{redfish.PendingTaskState, redfish.NewTaskState,
				redfish.SuspendedTaskState}, t.TaskState)
			jobs = append(jobs, biosJob{path: t.path, name: hardware.OneLine(t.Name), waits: waits})
		}
	}
	return jobs, nil
}

// changesBIOS: the task is one of BIOS settings, and not of the BIOS's firmware.
func (t *task) changesBIOS() bool {
	target, name := strings.ToLower(t.Payload.TargetURI), strings.ToLower(t.Name)
	if target != "" {
		return strings.Contains(target, "/bios")
	}
	return strings.Contains(name, "bios.setup") || strings.Contains(name, "biosconfiguration") ||
		strings.Contains(name, "bios config")
}

// dellJob is what the driver reads of a job of an iDRAC.
type dellJob struct {
	Path     link `json:"@odata.id"`
	Name     string
	JobType  string
	JobState string
}

// dellLinks are the links of a manager that is an iDRAC.
type dellLinks struct {
	Oem struct{ Dell struct{ Jobs link } } `bmc:"object"`
}

// dellJobs gives the BIOS jobs of an iDRAC; false where the BMC is none.
func (h *handle) dellJobs(ctx context.Context, s *system) (jobs []biosJob, has bool, err error) {
	for _, manager := range paths(s.Links.ManagedBy) {
		var body struct{ Links dellLinks }
		if err := h.c.get(ctx, manager, &body); err != nil {
			return nil, false, err
		}
		list := string(body.Links.Oem.Dell.Jobs)
		if list == "" {
			continue
		}
		found, err := h.readDellJobs(ctx, list)
		return found, true, err
	}
	return nil, false, nil
}

// readDellJobs reads the jobs of a list in one request. Without a license, or where a BMC does not
// know it, that is refused, in whatever way, or not done: then each job is read by itself.
func (h *handle) readDellJobs(ctx context.Context, list string) (jobs []biosJob, err error) {
	all, err := readPages[dellJob](ctx, list+"?$expand=*($levels=1)", h.c.get)
	incomplete := slices.ContainsFunc(all, func(j dellJob) bool { return j.JobState == "" || j.Path == "" })
	if _, refused := asRefusal(err); incomplete || refused || isUnreadable(err) {
		all, err = h.readEachDellJob(ctx, list)
	}
	for _, job := range all {
		if job.changesBIOS() && job.active() {
			jobs = append(jobs, biosJob{path: string(job.Path), name: hardware.OneLine(job.Name), waits: job.waits()})
		}
	}
	return jobs, err
}

func (h *handle) readEachDellJob(ctx context.Context, list string) ([]dellJob, error) {
	members, err := h.c.members(ctx, list)
	if err != nil {
		return nil, err
	}
	var all []dellJob
	for _, path := range members {
		job := dellJob{Path: link(path)}
		if err := h.c.get(ctx, path, &job); hasStatus(err, http.StatusNotFound) {
			continue // it was just deleted
		} else if err != nil {
			return nil, err
		}
		all = append(all, job)
	}
	return all, nil
}

func (j dellJob) changesBIOS() bool {
	return j.JobType == "BIOSConfiguration" || j.JobType == "" && strings.Contains(j.Name, "BIOS.Setup")
}

// active: the job has not ended.
func (j dellJob) active() bool {
	return !strings.HasPrefix(j.JobState, "Completed") && !strings.HasSuffix(j.JobState, "Failed") &&
		j.JobState != "RebootCompleted"
}

func (j dellJob) waits() bool {
	return slices.Contains([]string{"Scheduled", "New", "Scheduling", "Waiting", "Pending", "ReadyForExecution",
		"Downloaded"}, j.JobState)
}
