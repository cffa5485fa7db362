package redfishsim

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	updateService = root + "/UpdateService"
	updateQueue   = updateService + "/UpdateTaskQueue"
)

func (t *tree) addUpdates() {
	t.addInventory()
	c := &t.Conf
	actions := doc{}
	service := t.add("UpdateService.v1_8_0.UpdateService", updateService, "Update Service",
		doc{"ServiceEnabled": true, "FirmwareInventory": t.link(inventory), "Actions": actions})
	service.tagged = true
	if !t.is(OpenBMC) {
		path := updateService + "/Actions/UpdateService.SimpleUpdate"
		actions["#UpdateService.SimpleUpdate"] = t.action(path, "TransferProtocol", []string{"HTTP", "HTTPS"})
		t.post(path, t.updating(t.simpleUpdate))
	}
	if c.NeedsStartUpdate {
		path := updateService + "/Actions/UpdateService.StartUpdate"
		actions["#UpdateService.StartUpdate"] = t.action(path)
		t.post(path, t.updating(t.startUpdate))
	}
	if c.MultipartPath != "" {
		service.doc["MultipartHttpPushUri"] = t.uri(c.MultipartPath)
		if len(c.OperationApplyTimes) > 0 {
			service.doc["MultipartHttpPushUri@Redfish.OperationApplyTimeSupport"] = doc{
				"@odata.type": "#Settings.v1_3_3.OperationApplyTimeSupport", "SupportedValues": c.OperationApplyTimes,
			}
		}
		t.post(c.MultipartPath, t.updating(t.multipartPush))
	}
	if t.is(ILO) {
		t.addQueue(service)
	}
}

// addQueue adds what an iLO says of updates instead of tasks: of the last one in the service, and
// in a list what is written, or staged until a reset.
func (t *tree) addQueue(service *resource) {
	t.list("HpeComponentUpdateTask", updateQueue)
	state, percent := "Idle", 0
	if t.Data.LastUpdate != "" {
		state = t.Data.LastUpdate
	}
	for _, w := range t.Data.Work {
		if w.Kind != KindFirmware {
			continue
		}
		id, queued := fmt.Sprint(w.Request), "Pending"
		if !w.Waits {
			queued, state, percent = "InProgress", "Verifying", 0
			if w.Stage == stageWrite {
				state, percent = "Updating", 50
			}
		}
		t.member("HpeComponentUpdateTask.v1_3_0.HpeComponentUpdateTask", updateQueue, id, "Update-"+id,
			doc{"Command": "ApplyUpdate", "State": queued, "Component": w.Component, "UpdatableBy": []string{"Uefi"}})
	}
	service.doc["Oem"] = doc{"Hpe": doc{
		"@odata.type": "#HpeiLOUpdateServiceExt.v2_1_1.HpeiLOUpdateServiceExt", "State": state,
		"FlashProgressPercent": percent,
		"UpdateTaskQueue":      t.link(updateQueue),
	}}
}

func texts(value any) []string {
	var all []string
	list, _ := value.([]any)
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return all
}

// updating is do where no update is under way.
func (m *Machine) updating(do handler) handler {
	return func(c *call) answer {
		if slices.ContainsFunc(m.Data.Work, func(w *Work) bool { return w.Kind == KindFirmware && !w.Waits }) {
			return failure(503, "Update.1.0.UpdateInProgress", "An update is already in progress.")
		}
		return do(c)
	}
}

// wish is what an update was asked to be.
type wish struct {
	targets   []string
	immediate bool // the BMC resets the server for it
	now       bool // without StartUpdate
	onReset   bool
}

func (m *Machine) wishOf(body doc) (wish, *answer) {
	w := wish{targets: texts(body["Targets"])}
	at, asked := when(body, "@Redfish.OperationApplyTime")
	allowed := m.Conf.OperationApplyTimes
	if len(allowed) == 0 {
		allowed = []string{"OnReset", "OnStartUpdateRequest", "Immediate"}
	}
	if asked && !slices.Contains(allowed, at) {
		a := notInList("the values of @Redfish.OperationApplyTime", at)
		return w, &a
	}
	w.onReset, w.now = at == "OnReset", at == "Immediate"
	w.immediate = w.now && m.is(IDRAC)
	return w, nil
}

// multipartPush takes an image with its parameters.
func (m *Machine) multipartPush(c *call) answer {
	parameters, image, err := parts(c)
	if err != nil {
		return failure(400, "Base.1.8.MalformedJSON", err.Error())
	}
	w, refused := m.wishOf(parameters)
	if refused != nil {
		return *refused
	}
	return m.pushed(c, w, image)
}

func parts(c *call) (parameters doc, image []byte, err error) {
	request := c.Clone(c.Context())
	request.Body = io.NopCloser(bytes.NewReader(c.Raw))
	file, _, err := request.FormFile("UpdateFile")
	if err == nil {
		image, err = io.ReadAll(file)
	}
	if err == nil {
		err = json.Unmarshal([]byte(request.FormValue("UpdateParameters")), &parameters)
	}
	return parameters, image, err
}

func (m *Machine) pushed(c *call, w wish, image []byte) answer {
	component, version, good := read(image)
	upload := Upload{Component: component, Version: version, Digest: Digest(image), Targets: w.targets}
	if !m.Conf.NeedsStartUpdate || w.now {
		return m.install(c, upload, w, good)
	}
	if _, refused := m.targeted(component, w.targets); refused != nil {
		return *refused
	}
	m.Data.PushTargets = w.targets
	return m.begin(c, []*Work{{Stage: stageUpload, Component: component, Version: version, Digest: upload.Digest}})
}

// install begins to write an image.
func (m *Machine) install(c *call, image Upload, w wish, good bool) answer {
	works, refused := m.works(image, w, good)
	if refused != nil {
		return *refused
	}
	return m.begin(c, works)
}

// works is one work for each component that an image is for. Where it is for none, one
// work that fails.
func (m *Machine) works(image Upload, w wish, good bool) ([]*Work, *answer) {
	to, refused := m.targeted(image.Component, w.targets)
	if refused != nil {
		return nil, refused
	}
	if len(to) == 0 {
		to, good = []*Component{{System: "none"}}, false
	}
	if !good {
		image.Component = ""
	}
	var works []*Work
	for _, c := range to {
		works = append(works, &Work{Stage: stageVerify, System: c.System, Immediate: w.immediate, OnReset: w.onReset,
			Component: image.Component, Version: image.Version, Digest: image.Digest})
	}
	return works, nil
}

// begin starts works, and answers with the task of the first.
func (m *Machine) begin(c *call, works []*Work) answer {
	task := m.newTask(KindFirmware, "Firmware Update: "+works[0].Component, "FirmwareUpdate", c)
	works[0].Task = task.ID
	for _, w := range works {
		w.Request = c.Entry.Number
		m.start(w, c.At)
	}
	c.Entry.Changed = true
	return m.accepted(c, task, m.Conf.UpdateForm)
}

func (m *Machine) start(w *Work, at time.Time) {
	w.Kind, w.Started, w.Due = KindFirmware, at, at.Add(m.Conf.Delays.Verify)
	m.Data.Work = append(m.Data.Work, w)
}

// startUpdate writes what was uploaded before.
func (m *Machine) startUpdate(c *call) answer {
	upload := m.Data.Upload
	if upload == nil {
		return failure(400, "SMC.1.0.OemUpdateFileNotFound", "No firmware file was uploaded.")
	}
	m.Data.Upload = nil
	return m.install(c, *upload, wish{targets: upload.Targets}, true)
}

// simpleUpdate has the BMC fetch the image itself.
func (m *Machine) simpleUpdate(c *call) answer {
	uri := c.Text("ImageURI")
	if uri == "" {
		return failure(400, "Base.1.8.ActionParameterMissing", "The parameter ImageURI is required.")
	}
	w, refused := m.wishOf(c.JSON)
	if refused == nil {
		_, refused = m.targeted("", w.targets)
	}
	if refused != nil {
		return *refused
	}
	work := &Work{Stage: stageDownload}
	a := m.begin(c, []*Work{work})
	m.working.Go(func() {
		image, err := fetch(m.Closing, uri)
		m.Do(func(now time.Time) { m.downloaded(work, image, err, w, now) })
	})
	return a
}

// downloaded goes on with what the BMC has fetched, whoever served it.
func (m *Machine) downloaded(work *Work, image []byte, err error, w wish, now time.Time) {
	if !slices.Contains(m.Data.Work, work) {
		return // the BMC restarted
	}
	component, version, good := read(image)
	works, refused := m.works(Upload{Component: component, Version: version, Digest: Digest(image)}, w, good)
	if err != nil || refused != nil {
		m.end(work, Exception, now)
		return
	}
	m.Data.Work = slices.DeleteFunc(m.Data.Work, func(one *Work) bool { return one == work })
	works[0].Task = work.Task
	for _, one := range works {
		one.Request = work.Request
		m.start(one, now)
	}
}

func fetch(ctx context.Context, uri string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // as a BMC does
		DisableKeepAlives: true,
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", uri, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, 64<<20))
}
