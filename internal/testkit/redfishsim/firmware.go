package redfishsim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The stages of an update.
const (
	stageDownload = "download" // the BMC fetches the image
	stageVerify   = "verify"
	stageUpload   = "upload" // verified, and then left for StartUpdate
	stageWrite    = "write"  // a power change now bricks the server
)

const (
	inventory = updateService + "/FirmwareInventory"
	magic     = "REDFISHSIM FIRMWARE"
)

// Image is a firmware image that the BMCs here accept: of one component, such as BIOS.
func Image(component, version string) []byte {
	head := fmt.Sprintf("%s\ncomponent: %s\nversion: %s\n\n", magic, component, version)
	return append([]byte(head), strings.Repeat("\x00\xff\x5a\xa5", 1024)...)
}

// Digest is the SHA-256 of an image, as a policy has it.
func Digest(image []byte) string {
	sum := sha256.Sum256(image)
	return hex.EncodeToString(sum[:])
}

// read is what an image says that it is.
func read(image []byte) (component, version string, good bool) {
	head, body, found := strings.Cut(string(image), "\n\n")
	lines := strings.Split(head, "\n")
	if !found || len(lines) != 3 || lines[0] != magic || len(body) == 0 || len(body)%4096 != 0 {
		return "", "", false
	}
	component, first := strings.CutPrefix(lines[1], "component: ")
	version, second := strings.CutPrefix(lines[2], "version: ")
	return component, version, first && second
}

// software is one entry of the inventory.
type software struct {
	id, name, version string
	component         *Component
	running           bool
}

// installed is the inventory, in this BMC's names.
func (m *Machine) installed() []software {
	var all []software
	for _, c := range m.Data.Components {
		if c.System != "" && !m.Conf.SecondSystem {
			continue
		}
		add := func(id, name, version string, running bool) {
			if m.is(ILO) {
				id = fmt.Sprint(len(all) + 1)
			}
			if version != "" {
				all = append(all, software{id: id, name: name, version: version, component: c, running: running})
			}
		}
		staged, suffix, dell := c.Staged, "", map[string]string{"BIOS": "BIOS.Setup.1-1", "BMC": "iDRAC.Embedded.1-1",
			"NIC": "NIC.Integrated.1-1-1"}[c.Name]
		if kept := m.Data.Upload; kept != nil && kept.Component == c.Name && (c.System == "" || !m.is(IDRAC)) {
			staged = kept.Version
		} else if m.is(IDRAC) {
			staged = ""
		}
		if c.System != "" {
			suffix, dell = "_2", "BIOS.Setup.2-1"
		}
		switch m.Conf.Personality {
		case IDRAC:
			add("Installed-"+c.Number+"-"+c.Version+"__"+dell, c.Name, c.Version, true)
			add("Previous-"+c.Number+"-"+c.Previous+"__"+dell, c.Name, c.Previous, false)
			add("Available-"+c.Number+"-"+staged+"__"+dell, c.Name, staged, false)
		case ILO:
			name := map[string]string{"BIOS": "System ROM", "BMC": "iLO 5", "NIC": "HPE Ethernet 10Gb 2-port Adapter"}[c.Name]
			add("", name+suffix, c.Version, true)
			add("", "Redundant "+name+suffix, c.Previous, false)
		case Supermicro:
			add(c.Name+suffix, c.Name, c.Version, true)
			add("Backup_"+c.Name+suffix, "Backup "+c.Name, c.Previous, false)
			add("Golden_"+c.Name+suffix, "Golden "+c.Name, c.Golden, false)
			add("Staging_"+c.Name+suffix, "Staging "+c.Name, staged, false)
		default: // OpenBMC
			add(strings.ToLower(c.Name)+"_active"+suffix,
				map[string]string{"BIOS": "Host image", "BMC": "BMC image"}[c.Name], c.Version, true)
		}
	}
	return all
}

func (t *tree) addInventory() {
	t.list("SoftwareInventory", inventory)
	for _, one := range t.installed() {
		r := t.member("SoftwareInventory.v1_2_3.SoftwareInventory", inventory, one.id, one.name,
			doc{"Version": one.version, "Updateable": one.running})
		if !one.running {
			r.doc["Status"] = status("StandbyOffline")
		}
		if one.component.Number != "" {
			r.doc["SoftwareId"] = one.component.Number
		}
		if one.component.Name == "BIOS" && one.running && one.component.System == "" {
			r.doc["RelatedItem"] = t.links(t.system("/Bios"))
		}
	}
}

// targeted are the components that an image is for; a refusal where a target is unknown.
func (m *Machine) targeted(component string, targets []string) ([]*Component, *answer) {
	var to []*Component
	if len(targets) == 0 {
		// As the standard says: each system of the BMC that the image fits.
		for _, c := range m.Data.Components {
			if c.Name == component && (c.System == "" || m.Conf.SecondSystem) {
				to = append(to, c)
			}
		}
		return to, nil
	}
	for _, target := range targets {
		c := m.targetOf(strings.TrimSuffix(target, "/"))
		if c == nil {
			a := notInList("the values of Targets", target)
			return nil, &a
		}
		if c.Name == component && !slices.Contains(to, c) {
			to = append(to, c)
		}
	}
	return to, nil
}

func (m *Machine) targetOf(target string) *Component {
	switch target {
	case m.system(""), m.system("/Bios"):
		return m.Data.component("BIOS", "")
	case secondSystem, secondSystem + "/Bios":
		return m.Data.component("BIOS", secondSystem)
	case m.manager(""):
		return m.Data.component("BMC", "")
	}
	for _, one := range m.installed() {
		if one.running && target == inventory+"/"+one.id {
			return one.component
		}
	}
	return nil
}

// firmwareStageDone is the end of one stage.
func (m *Machine) firmwareStageDone(w *Work, at time.Time) {
	broken := Exception
	if m.is(IDRAC) {
		broken = CompletedCritical
	}
	component := m.Data.component(w.Component, w.System)
	m.Data.LastUpdate = "Complete"
	if component == nil {
		m.Data.LastUpdate = "Error"
		m.end(w, broken, at)
		return
	}
	switch w.Stage {
	case stageUpload:
		m.Data.Upload = &Upload{Component: w.Component, Version: w.Version, Digest: w.Digest, Targets: m.Data.PushTargets}
		m.end(w, Succeeds, at)
	case stageVerify:
		// From now on it is written, or staged for it.
		m.Data.Commits = append(m.Data.Commits, Commit{Component: component.Name, System: component.System,
			To: w.Version, Digest: w.Digest, Request: w.Request})
		if m.Conf.BIOSStaged && component.Name == "BIOS" || w.OnReset && component.Name != "BMC" {
			component.Staged, w.Waits = w.Version, true
			if (w.Immediate || m.Conf.SelfReset) && m.Data.Power == powerOn {
				m.setPower("ForceRestart", at)
			}
			return
		}
		w.Stage, w.Started, w.Due = stageWrite, at, at.Add(m.Conf.Delays.Write)
	case stageWrite:
		how := m.Conf.Endings[KindFirmware]
		if how == Succeeds {
			component.Previous, component.Version = component.Version, w.Version
		}
		component.Staged = ""
		if how != Succeeds && how != Lies {
			m.Data.LastUpdate = "Error"
		}
		m.end(w, how, at)
		if how == Succeeds && component.Name == "BMC" {
			m.restart(at, true)
		}
	}
}
