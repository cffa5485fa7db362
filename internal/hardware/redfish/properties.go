package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// readProperties reads what a server consists of that is on and whose POST has ended.
func (h *handle) readProperties(ctx context.Context, s *system) (device.Properties, error) {
	p := device.Properties{
		CPUs: s.ProcessorSummary.Count, Cores: s.ProcessorSummary.CoreCount,
		MemoryMiB: int64(math.Round(s.MemorySummary.TotalSystemMemoryGiB * 1024)),
	}
	var err error
	if p.CPUs == 0 || p.Cores == 0 {
		cpus, cores := 0, 0
		err = h.eachPart(ctx, s.Processors, func(cpu *part) {
			if cpu.ProcessorType == redfish.CPUProcessorType || cpu.ProcessorType == "" {
				cpus, cores = cpus+1, cores+cpu.TotalCores
			}
		})
		p.CPUs, p.Cores = cmp.Or(p.CPUs, cpus), cmp.Or(p.Cores, cores)
	}
	if p.MemoryMiB == 0 && err == nil {
		err = h.eachPart(ctx, s.Memory, func(module *part) { p.MemoryMiB += module.CapacityMiB })
	}
	if err != nil {
		return device.Properties{}, err
	}
	if p.Links, err = h.readLinks(ctx, s); err != nil {
		return device.Properties{}, err
	}
	drives, err := h.drives(ctx)
	if err != nil {
		return device.Properties{}, err
	}
	p.Drives = driveProperties(drives)
	return p, nil
}

// part is what the driver reads of a Processor, and of a Memory.
type part struct {
	ProcessorType redfish.ProcessorType `bmc:"optional"`
	TotalCores    int                   `bmc:"optional"`
	CapacityMiB   int64                 `bmc:"optional"`
	Status        resourceStatus        `bmc:"optional"`
}

// eachPart reads the parts of a collection that are there.
func (h *handle) eachPart(ctx context.Context, of link, use func(*part)) error {
	return eachMember(ctx, h, of, func(_ string, p *part) {
		if p.Status.State != "Absent" {
			use(p)
		}
	})
}

// pcieDevice is what the driver reads of a PCIeDevice.
type pcieDevice struct {
	ID            string `json:"Id"`
	Name          string
	Status        resourceStatus `bmc:"optional"`
	PCIeInterface struct {
		LanesInUse int    `bmc:"optional"`
		PCIeType   string `bmc:"optional"`
	} `bmc:"optional"`
}

// readLinks reads the PCIe devices of the system, else of its chassis, that have a link.
func (h *handle) readLinks(ctx context.Context, s *system) ([]device.Link, error) {
	all := map[string]*pcieDevice{}
	add := func(path string, d *pcieDevice) { all[path] = d }
	devices := slices.Concat(s.PCIeDevices, s.Links.PCIeDevices)
	for _, path := range paths(devices) {
		if path == "" || all[path] != nil {
			continue
		}
		d := &pcieDevice{}
		if err := h.get(ctx, path, d); err != nil {
			return nil, err
		}
		add(path, d)
	}
	for _, chassis := range s.Links.Chassis {
		var body struct {
			PCIeDevices link `bmc:"optional"`
		}
		if len(devices) > 0 {
			break
		}
		if err := h.get(ctx, string(chassis), &body); err != nil {
			return nil, err
		}
		if err := eachMember(ctx, h, body.PCIeDevices, add); err != nil {
			return nil, err
		}
	}
	var links []device.Link
	for _, d := range all {
		if d.Status.State != "Absent" && (d.PCIeInterface.LanesInUse != 0 || d.PCIeInterface.PCIeType != "") {
			links = append(links, device.Link{Name: cmp.Or(hardware.OneLine(d.Name), d.ID), Width: d.PCIeInterface.LanesInUse,
				Speed: d.PCIeInterface.PCIeType})
		}
	}
	slices.SortFunc(links, func(a, b device.Link) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Width, b.Width), cmp.Compare(a.Speed, b.Speed))
	})
	return links, nil
}

// verifyProperties compares what the server consists of with the profile of the policy, or with
// what was enrolled (S3.5). A server that is off is switched on for it, and off again.
func (h *handle) verifyProperties(ctx context.Context, run hardware.StepRun) (string, error) {
	want, with, err := h.wantedProperties(run)
	if err != nil {
		return "", err
	}
	// Before the end of POST a BMC does not know all that is there.
	if err := h.ensureOn(ctx, run); err != nil {
		return "", err
	}
	s, err := h.readReady(ctx)
	if err != nil {
		return "", err
	}
	is, err := h.readProperties(ctx, s)
	if err != nil {
		return "", err
	}
	if differ := propertiesDiffer(want, is); len(differ) > 0 {
		return "", hardware.Refused(device.CodePropertiesMismatch,
			"repair the server; or correct the profile of the policy, or enroll the server again as it is now",
			"the server is not %s: %s", with, strings.Join(differ, "; "))
	}
	return fmt.Sprintf("as %s: %d CPUs, %d cores, %d MiB of memory, %d drives, %d PCIe links", with, is.CPUs, is.Cores,
		is.MemoryMiB, len(is.Drives), len(is.Links)), nil
}

// wantedProperties gives what the server must consist of, and what says so.
func (h *handle) wantedProperties(run hardware.StepRun) (want device.Properties, with string, err error) {
	if len(run.Args) > 0 && string(run.Args) != "null" {
		if err := json.Unmarshal(run.Args, &want); err != nil {
			return want, "", hardware.Refused(device.CodeInvalid, "correct the profile in the policy",
				"the profile of verify_properties is unreadable: %v", err)
		}
		return want, "its policy's profile says", nil
	}
	want, err = h.enrolledProperties()
	return want, "enrolled", err
}

// enrolledProperties are what was recorded of the server at its enrollment.
func (h *handle) enrolledProperties() (device.Properties, error) {
	p, err := device.ParseProperties(h.enrolled.Properties)
	if err != nil {
		return p, hardware.Refused(device.CodeInternal, "enroll the server again", "%v", err)
	}
	return p, nil
}

// propertiesDiffer names each difference. A zero field of want is not compared, but where want
// has drives or links, each one that it does not have is a difference.
func propertiesDiffer(want, is device.Properties) (differ []string) {
	count := func(what string, want, is int64) {
		if want != 0 && want != is {
			differ = append(differ, fmt.Sprintf("%s: %d instead of %d", what, is, want))
		}
	}
	count("CPUs", int64(want.CPUs), int64(is.CPUs))
	count("cores", int64(want.Cores), int64(is.Cores))
	count("MiB of memory", want.MemoryMiB, is.MemoryMiB)
	differ = append(differ, drivesDiffer(want.Drives, is.Drives)...)
	return append(differ, differing("PCIe device", want.Links, is.Links, func(w, l device.Link) bool {
		return w.Name == l.Name && (w.Width == 0 || w.Width == l.Width) && (w.Speed == "" || w.Speed == l.Speed)
	}, func(l device.Link) []string {
		return []string{l.Name, strings.TrimSpace(fmt.Sprintf("x%d %s", l.Width, l.Speed))}
	})...)
}

func drivesDiffer(want, is []device.Drive) []string {
	return differing("drive", want, is, driveFits, driveWords)
}

// differing pairs what is wanted with what is there, and names what has no pair. What fits the fewest chooses
// first, such as a drive with a serial. Where nothing is wanted, nothing is compared.
func differing[T any](what string, want, is []T, fits func(want, is T) bool, words func(T) []string) (all []string) {
	if len(want) == 0 {
		return nil
	}
	choice := func(w T) (n int) {
		for _, one := range is {
			if fits(w, one) {
				n++
			}
		}
		return n
	}
	name := func(state string, one T) {
		all = append(all, hardware.OneLine(state+" "+what+" "+strings.Join(words(one), ", ")))
	}
	left := slices.Clone(is)
	for _, w := range slices.SortedStableFunc(slices.Values(want), func(a, b T) int { return choice(a) - choice(b) }) {
		if i := slices.IndexFunc(left, func(is T) bool { return fits(w, is) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			name("missing", w)
		}
	}
	for _, one := range left {
		name("extra", one)
	}
	return all
}

// driveFits: is has all that want says.
func driveFits(want, is device.Drive) bool {
	return (want.Serial == "" || hardware.CanonicalSerial(want.Serial) == hardware.CanonicalSerial(is.Serial)) &&
		(want.Model == "" || strings.EqualFold(strings.TrimSpace(want.Model), strings.TrimSpace(is.Model))) &&
		(want.CapacityBytes == 0 || want.CapacityBytes == is.CapacityBytes) &&
		(want.Protocol == "" || strings.EqualFold(want.Protocol, is.Protocol))
}

// driveWords is what is said of a drive.
func driveWords(d device.Drive) []string {
	words := []string{d.Serial, d.Model, d.Protocol, ""}
	if d.CapacityBytes != 0 {
		words[3] = fmt.Sprintf("%d bytes", d.CapacityBytes)
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}
