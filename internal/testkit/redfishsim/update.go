package redfishsim

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	updateService = "/redfish/v1/UpdateService"
	updateQueue   = updateService + "/UpdateTaskQueue"
)

func (m *Machine) updateServiceDoc(*call) answer {
	doc := m.doc("UpdateService.v1_8_0.UpdateService", updateService, "UpdateService", "Update Service")
	actions := map[string]any{}
	if !m.config.NoSimpleUpdate {
		actions["#UpdateService.SimpleUpdate"] = map[string]any{
			"target": m.uri(updateService + "/Actions/UpdateService.SimpleUpdate"),
			"TransferProtocol@Redfish.AllowableValues": []string{"HTTP", "HTTPS"},
		}
	}
	if m.config.NeedsStartUpdate {
		actions["#UpdateService.StartUpdate"] =
			map[string]any{"target": m.uri(updateService + "/Actions/UpdateService.StartUpdate")}
	}
	with(doc, map[string]any{
		"ServiceEnabled": true, "FirmwareInventory": m.link(inventory), "Actions": actions, "Status": status("Enabled", "OK"),
	})
	if m.config.MultipartPath != "" {
		doc["MultipartHttpPushUri"] = m.uri(m.config.MultipartPath)
		if len(m.config.OperationApplyTimes) > 0 {
			doc["MultipartHttpPushUri@Redfish.OperationApplyTimeSupport"] = map[string]any{
				"@odata.type": "#Settings.v1_3_3.OperationApplyTimeSupport", "SupportedValues": m.config.OperationApplyTimes,
			}
		}
	}
	if m.config.PushPath != "" {
		doc["HttpPushUri"] = m.uri(m.config.PushPath)
		if !m.config.PushStores {
			doc["HttpPushUriTargets"], doc["HttpPushUriTargetsBusy"] = m.state.PushTargets, false
		}
	}
	if m.config.UpdateState {
		state, percent := "Idle", 0
		if m.state.LastUpdate != "" {
			state = m.state.LastUpdate
		}
		for _, w := range m.state.Work {
			if w.Kind != KindFirmware || w.Waits {
				continue
			}
			state, percent = "Updating", 50
			if w.Stage != stageWrite {
				state, percent = "Verifying", 0
			}
		}
		doc["Oem"] = map[string]any{"Hpe": map[string]any{
			"@odata.type": "#HpeiLOUpdateServiceExt.v2_1_1.HpeiLOUpdateServiceExt", "State": state, "FlashProgressPercent": percent,
			"UpdateTaskQueue": m.link(updateQueue),
		}}
	}
	a := ok(doc)
	a.etag = true
	return a
}

// queueDoc is iLO's list of what is updated, or staged until a reset.
func (m *Machine) queueDoc(*call) answer {
	var members []string
	for _, w := range m.state.Work {
		if w.Kind == KindFirmware {
			members = append(members, updateQueue+"/"+fmt.Sprint(w.Request))
		}
	}
	return ok(m.collection("HpeComponentUpdateTaskQueueCollection", updateQueue, members...))
}

func (m *Machine) queuedDoc(c *call) answer {
	for _, w := range m.state.Work {
		id := fmt.Sprint(w.Request)
		if w.Kind != KindFirmware || id != c.vars[0] {
			continue
		}
		doc := m.doc("HpeComponentUpdateTask.v1_3_0.HpeComponentUpdateTask", updateQueue+"/"+id, id, "Update-"+id)
		state := "InProgress"
		if w.Waits {
			state = "Pending"
		}
		return ok(with(doc, map[string]any{"Command": "ApplyUpdate", "State": state, "Component": w.Component,
			"UpdatableBy": []string{"Uefi"}}))
	}
	return notFound()
}

func (m *Machine) patchUpdateService(c *call) answer {
	list, given := c.json["HttpPushUriTargets"].([]any)
	if !given || m.config.PushStores {
		return failure(400, "Base.1.8.PropertyUnknown", "No property that was given can be changed.")
	}
	var targets []string
	for _, one := range list {
		targets = append(targets, fmt.Sprint(one))
	}
	m.state.PushTargets = targets
	m.changed = true
	return answer{status: 204}
}

// wish is what an update was asked to be.
type wish struct {
	targets   []string
	immediate bool // the BMC resets the server for it
	now       bool // without StartUpdate
	onReset   bool
}

func (m *Machine) wishOf(body map[string]any) (wish, *answer) {
	var w wish
	list, _ := body["Targets"].([]any)
	for _, one := range list {
		w.targets = append(w.targets, fmt.Sprint(one))
	}
	at, asked := when(body, "@Redfish.OperationApplyTime")
	switch {
	case !asked:
	case len(m.config.OperationApplyTimes) > 0 && !slices.Contains(m.config.OperationApplyTimes, at):
		a := failure(400, "Base.1.8.ActionParameterValueNotInList",
			fmt.Sprintf("The value %s for the parameter @Redfish.OperationApplyTime is not in the list of acceptable values.",
				at))
		return w, &a
	case at == "OnReset":
		w.onReset = true
	case at == "OnStartUpdateRequest":
	case at == "Immediate":
		w.immediate, w.now = m.config.ImmediateApply, true
	default:
		a := failure(400, "Base.1.8.ActionParameterValueNotInList",
			fmt.Sprintf("The value %s for the parameter @Redfish.OperationApplyTime is not in the list of acceptable values.",
				at))
		return w, &a
	}
	return w, nil
}

// push takes an image as the body of the request. An iDRAC only keeps it.
func (m *Machine) push(c *call) answer {
	if m.config.PushStores {
		return m.keep(c)
	}
	targets := make([]any, 0, len(m.state.PushTargets))
	for _, target := range m.state.PushTargets {
		targets = append(targets, target)
	}
	return m.pushed(c, map[string]any{"Targets": targets}, c.body)
}

// keep stores an image under the name that the inventory then has.
func (m *Machine) keep(c *call) answer {
	component, version, good := read(c.body)
	if !good || m.state.component(component, "") == nil {
		return failure(400, "IDRAC.2.8.RED007", "Unable to verify Update Package signature.")
	}
	m.state.Upload = &Upload{Component: component, Version: version, Digest: Digest(c.body)}
	m.changed = true
	for _, one := range m.installed() {
		if strings.HasPrefix(one.id, "Available-") {
			return answer{status: http.StatusCreated, header: map[string]string{"Location": m.uri(inventory + "/" + one.id)}}
		}
	}
	return failure(500, "Base.1.8.InternalError", "The image was not kept.")
}

// multipartPush takes an image with its parameters.
func (m *Machine) multipartPush(c *call) answer {
	parameters, image, err := parts(c.request.Header.Get("Content-Type"), c.body)
	if err != nil {
		return failure(400, "Base.1.8.MalformedJSON", err.Error())
	}
	return m.pushed(c, parameters, image)
}

func parts(contentType string, body []byte) (parameters map[string]any, image []byte, err error) {
	kind, attributes, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" {
		return nil, nil, fmt.Errorf("the content type %q is not multipart/form-data", contentType)
	}
	reader := multipart.NewReader(bytes.NewReader(body), attributes["boundary"])
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, nil, err
		}
		switch part.FormName() {
		case "UpdateParameters":
			if err := json.Unmarshal(content, &parameters); err != nil {
				return nil, nil, err
			}
		case "UpdateFile":
			image = content
		}
	}
	if parameters == nil || image == nil {
		return nil, nil, fmt.Errorf("UpdateParameters and UpdateFile are required")
	}
	return parameters, image, nil
}

// busy is the refusal of a second update at a time.
func (m *Machine) busy() (answer, bool) {
	if !m.updating() {
		return answer{}, false
	}
	return failure(503, "Update.1.0.UpdateInProgress", "An update is already in progress."), true
}

func (m *Machine) pushed(c *call, parameters map[string]any, image []byte) answer {
	if a, refused := m.busy(); refused {
		return a
	}
	w, refused := m.wishOf(parameters)
	if refused != nil {
		return *refused
	}
	component, version, _ := read(image)
	if m.config.NeedsStartUpdate && !w.now {
		if _, refused := m.targeted(component, w.targets); refused != nil {
			return *refused
		}
		m.state.PushTargets = w.targets
		return m.begin(c, []*Work{{Stage: stageUpload, Component: component, Version: version, Digest: Digest(image)}})
	}
	works, refused := m.works(component, w)
	if refused != nil {
		return *refused
	}
	for _, work := range works {
		m.fill(work, image)
	}
	return m.begin(c, works)
}

// works is one work for each component that an image is for. Where it is for none, one
// work that fails.
func (m *Machine) works(component string, w wish) ([]*Work, *answer) {
	to, refused := m.targeted(component, w.targets)
	if refused != nil {
		return nil, refused
	}
	if len(to) == 0 {
		return []*Work{{Stage: stageVerify, System: "none"}}, nil
	}
	var works []*Work
	for _, c := range to {
		works = append(works, &Work{Stage: stageVerify, System: c.System, Immediate: w.immediate, OnReset: w.onReset})
	}
	return works, nil
}

// begin starts works, and answers with the task of the first.
func (m *Machine) begin(c *call, works []*Work) answer {
	task := m.newTask(KindFirmware, "Firmware Update: "+works[0].Component, c.at)
	task.JobType = "FirmwareUpdate"
	m.from(c, task)
	for i, w := range works {
		w.Kind, w.Started, w.Due, w.Request = KindFirmware, c.at, c.at.Add(m.config.Delays.Verify), m.now
		if i == 0 {
			w.Task = task.ID
		}
		m.state.Work = append(m.state.Work, w)
	}
	m.changed = true
	return m.accepted(c, task, m.config.UpdateForm)
}

// startUpdate writes what was uploaded before.
func (m *Machine) startUpdate(c *call) answer {
	if a, refused := m.busy(); refused {
		return a
	}
	upload := m.state.Upload
	if upload == nil {
		return failure(400, "SMC.1.0.OemUpdateFileNotFound", "No firmware file was uploaded.")
	}
	m.state.Upload = nil
	works, refused := m.works(upload.Component, wish{targets: upload.Targets})
	if refused != nil {
		return *refused
	}
	for _, w := range works {
		w.Component, w.Version, w.Digest = upload.Component, upload.Version, upload.Digest
	}
	return m.begin(c, works)
}

// simpleUpdate has the BMC fetch the image itself.
func (m *Machine) simpleUpdate(c *call) answer {
	if a, refused := m.busy(); refused {
		return a
	}
	uri, _ := c.json["ImageURI"].(string)
	if uri == "" {
		return failure(400, "Base.1.8.ActionParameterMissing",
			"The action UpdateService.SimpleUpdate requires the parameter ImageURI to be present in the request body.")
	}
	w, refused := m.wishOf(c.json)
	if refused != nil {
		return *refused
	}
	for _, target := range w.targets {
		if _, refused := m.targeted("", []string{target}); refused != nil {
			return *refused
		}
	}
	if kept := m.state.Upload; m.config.PushStores && kept != nil && strings.Contains(uri, inventory+"/Available-") {
		works, refused := m.works(kept.Component, w)
		if refused != nil {
			return *refused
		}
		m.state.Upload = nil
		for _, work := range works {
			work.Component, work.Version, work.Digest = kept.Component, kept.Version, kept.Digest
		}
		return m.begin(c, works)
	}
	work := &Work{Stage: stageDownload}
	a := m.begin(c, []*Work{work})
	m.working.Go(func() { m.download(uri, work, w) })
	return a
}

// download fetches an image as BMCs do: whoever serves it.
func (m *Machine) download(uri string, work *Work, w wish) {
	image, err := fetch(m.hang, uri)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.advance(now)
	present := false
	for _, other := range m.state.Work {
		present = present || other == work
	}
	if !present {
		return // the BMC restarted
	}
	if err != nil {
		m.end(work, Exception, now)
		return
	}
	component, _, _ := read(image)
	works, refused := m.works(component, w)
	if refused != nil {
		m.end(work, Exception, now)
		return
	}
	for i, one := range works {
		if i == 0 {
			work.System, work.Immediate, work.OnReset, work.Stage = one.System, one.Immediate, one.OnReset, one.Stage
			one = work
		} else {
			one.Kind, one.Request = KindFirmware, work.Request
			m.state.Work = append(m.state.Work, one)
		}
		m.fill(one, image)
		one.Started, one.Due = now, now.Add(m.config.Delays.Verify)
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
