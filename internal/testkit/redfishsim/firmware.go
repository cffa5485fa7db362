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
	inventory = "/redfish/v1/UpdateService/FirmwareInventory"
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
	number := 0
	for _, c := range m.state.Components {
		if c.System != "" && !m.config.SecondSystem {
			continue
		}
		add := func(id, name, version string, running bool) {
			if version != "" {
				all = append(all, software{id: id, name: name, version: version, component: c, running: running})
			}
		}
		suffix := ""
		if c.System != "" {
			suffix = "_2"
		}
		switch m.config.Personality {
		case IDRAC:
			unit := map[string]string{"BIOS": "BIOS.Setup.1-1", "BMC": "iDRAC.Embedded.1-1",
				"NIC": "NIC.Integrated.1-1-1"}[c.Name]
			if suffix != "" {
				unit = "BIOS.Setup.2-1"
			}
			add("Installed-"+c.Number+"-"+c.Version+"__"+unit, c.Name, c.Version, true)
			add("Previous-"+c.Number+"-"+c.Previous+"__"+unit, c.Name, c.Previous, false)
			if kept := m.state.Upload; kept != nil && kept.Component == c.Name && c.System == "" {
				add("Available-"+c.Number+"-"+kept.Version+"__"+unit, c.Name, kept.Version, false)
			}
		case ILO:
			name := map[string]string{"BIOS": "System ROM", "BMC": "iLO 5", "NIC": "HPE Ethernet 10Gb 2-port Adapter"}[c.Name] +
				suffix
			number++
			add(fmt.Sprint(number), name, c.Version, true)
			if c.Previous != "" {
				number++
				add(fmt.Sprint(number), "Redundant "+name, c.Previous, false)
			}
		case Supermicro:
			add(c.Name+suffix, c.Name, c.Version, true)
			add("Backup_"+c.Name+suffix, "Backup "+c.Name, c.Previous, false)
			add("Golden_"+c.Name+suffix, "Golden "+c.Name, c.Golden, false)
			staged := c.Staged
			if m.state.Upload != nil && m.state.Upload.Component == c.Name {
				staged = m.state.Upload.Version
			}
			add("Staging_"+c.Name+suffix, "Staging "+c.Name, staged, false)
		default: // OpenBMC
			add(strings.ToLower(c.Name)+"_active"+suffix, map[string]string{"BIOS": "Host image", "BMC": "BMC image"}[c.Name],
				c.Version, true)
		}
	}
	return all
}

func (m *Machine) inventoryDoc(*call) answer {
	var members []string
	for _, one := range m.installed() {
		members = append(members, inventory+"/"+one.id)
	}
	return ok(m.collection("SoftwareInventoryCollection", inventory, members...))
}

func (m *Machine) softwareDoc(c *call) answer {
	for _, one := range m.installed() {
		if one.id != c.vars[0] {
			continue
		}
		doc := m.doc("SoftwareInventory.v1_2_3.SoftwareInventory", inventory+"/"+one.id, one.id, one.name)
		with(doc, map[string]any{"Version": one.version, "Updateable": one.running, "Status": status("Enabled", "OK")})
		if !one.running {
			doc["Status"] = status("StandbyOffline", "OK")
		}
		if one.component.Number != "" {
			doc["SoftwareId"] = one.component.Number
		}
		if one.component.Name == "BIOS" && one.running && one.component.System == "" {
			doc["RelatedItem"] = m.links(m.system("Bios"))
		}
		return ok(doc)
	}
	return notFound()
}

// targeted are the components that an image is for; a refusal where a target is unknown.
func (m *Machine) targeted(component string, targets []string) ([]*Component, *answer) {
	var to []*Component
	if len(targets) == 0 {
		// As the standard says: each system of the BMC that the image fits.
		for _, c := range m.state.Components {
			if c.Name == component && (c.System == "" || m.config.SecondSystem) {
				to = append(to, c)
			}
		}
		return to, nil
	}
	for _, target := range targets {
		c := m.targetOf(strings.TrimSuffix(target, "/"))
		if c == nil {
			a := failure(400, "Base.1.8.ActionParameterValueNotInList",
				fmt.Sprintf("The value %s for the parameter Targets is not in the list of acceptable values.", target))
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
	case m.system(""), m.system("Bios"):
		return m.state.component("BIOS", "")
	case "/redfish/v1/Systems/" + secondSystem, "/redfish/v1/Systems/" + secondSystem + "/Bios":
		return m.state.component("BIOS", secondSystem)
	case m.manager(""):
		return m.state.component("BMC", "")
	}
	for _, one := range m.installed() {
		if one.running && target == inventory+"/"+one.id {
			return one.component
		}
	}
	return nil
}

// updating is true while any firmware is verified or written.
func (m *Machine) updating() bool {
	return slices.ContainsFunc(m.state.Work, func(w *Work) bool { return w.Kind == KindFirmware && !w.Waits })
}

// fill makes w the update by image.
func (m *Machine) fill(w *Work, image []byte) {
	component, version, good := read(image)
	w.Component, w.Version, w.Digest = component, version, Digest(image)
	if !good {
		w.Component = ""
	}
}

// firmwareStageDone is the end of one stage.
func (m *Machine) firmwareStageDone(w *Work, at time.Time) {
	broken := Exception
	if m.config.Personality == IDRAC {
		broken = CompletedCritical
	}
	component := m.state.component(w.Component, w.System)
	m.state.LastUpdate = "Complete"
	if component == nil {
		m.state.LastUpdate = "Error"
		m.end(w, broken, at)
		return
	}
	switch w.Stage {
	case stageUpload:
		m.state.Upload = &Upload{Component: w.Component, Version: w.Version, Digest: w.Digest, Targets: m.state.PushTargets}
		m.end(w, Succeeds, at)
	case stageVerify:
		m.commit(component, w)
		if m.config.BIOSStaged && component.Name == "BIOS" || w.OnReset && component.Name != "BMC" {
			component.Staged, w.Waits = w.Version, true
			if (w.Immediate || m.config.SelfReset) && m.state.Power == powerOn {
				m.setPower("ForceRestart", at)
			}
			return
		}
		w.Stage, w.Started, w.Due = stageWrite, at, at.Add(m.config.Delays.Write)
	case stageWrite:
		how := m.config.Endings[KindFirmware]
		written := how == Succeeds && !component.Stays
		if written {
			component.Previous, component.Version = component.Version, w.Version
		}
		component.Staged = ""
		if how != Succeeds && how != Lies {
			m.state.LastUpdate = "Error"
		}
		m.end(w, how, at)
		if written && component.Name == "BMC" {
			m.restart(at, true)
		}
	}
}

// commit keeps that firmware is written, or staged for it, from now on.
func (m *Machine) commit(component *Component, w *Work) {
	m.state.Commits = append(m.state.Commits, Commit{
		Component: component.Name, System: component.System, From: component.Version, To: w.Version,
		Digest: w.Digest, Request: w.Request,
	})
}
