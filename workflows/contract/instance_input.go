package contract

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"burnish/internal/device"
)

// MaxInstanceDevices bounds the devices of one request.
const MaxInstanceDevices = 64

// maxProject bounds the bytes of a project's ID.
const maxProject = 255

var (
	traitForm   = regexp.MustCompile(`^[A-Z0-9_]{1,255}$`)
	projectForm = regexp.MustCompile(`^[!-~]+$`) // it is compared with an HTTP header
)

// Normalize checks what can be checked without a device, and gives names, types, host and
// addresses in their one spelling. Tags and the guest's addresses of devices are not checked
// here, see internal/nova/metadata.
func (in InstanceBindInput) Normalize() (InstanceBindInput, error) {
	if len(in.Devices) == 0 && len(in.Requests) == 0 {
		return in, errors.New("no device: name devices, or request some")
	}
	var err error
	if in.Devices, err = normalizeChoices(in.Devices); err != nil {
		return in, err
	}
	count := len(in.Devices)
	in.Requests = slices.Clone(in.Requests)
	for i := range in.Requests {
		if in.Requests[i], err = in.Requests[i].normalize(); err != nil {
			return in, err
		}
		count += max(in.Requests[i].Count, 1)
	}
	if count > MaxInstanceDevices {
		return in, tooMany(count)
	}
	if in.Host, err = normalizeHost(in.Host); err != nil {
		return in, err
	}
	if in.Project != "" && (len(in.Project) > maxProject || !projectForm.MatchString(in.Project)) {
		return in, fmt.Errorf("%q is not a valid project ID", in.Project)
	}
	if in.Addresses, err = normalizeAddresses(in.Addresses); err != nil {
		return in, err
	}
	return in, nil
}

// Normalize checks what can be checked without a device, see InstanceBindInput.
func (in InstanceMoveInput) Normalize() (InstanceMoveInput, error) {
	if in.To == "" {
		return in, errors.New("the host to move to is missing")
	}
	var err error
	if in.To, err = normalizeHost(in.To); err != nil {
		return in, err
	}
	in.Devices, err = normalizeChoices(in.Devices)
	return in, err
}

// Normalize checks what can be checked without a device, see InstanceBindInput.
func (in InstanceDetachInput) Normalize() (InstanceDetachInput, error) {
	choices := make([]DeviceChoice, len(in.Devices))
	for i, name := range in.Devices {
		choices[i].Name = name
	}
	choices, err := normalizeChoices(choices)
	switch {
	case err != nil:
		return in, err
	case len(choices) == 0:
		return in, errors.New("no device: name those to detach")
	}
	in.Devices = nil
	for _, c := range choices {
		in.Devices = append(in.Devices, c.Name)
	}
	return in, nil
}

func tooMany(n int) error {
	return fmt.Errorf("%d devices are more than an instance may get by one request: at most %d", n, MaxInstanceDevices)
}

// normalizeChoices gives the names' one spelling. A device named twice is an error.
func normalizeChoices(given []DeviceChoice) ([]DeviceChoice, error) {
	choices := slices.Clone(given)
	seen := map[string]bool{}
	for i, c := range choices {
		name, err := device.CanonicalName(c.Name)
		switch {
		case err != nil:
			return given, err
		case seen[name]:
			return given, fmt.Errorf("%s is named twice", name)
		}
		seen[name] = true
		choices[i].Name = name
	}
	if len(choices) > MaxInstanceDevices {
		return given, tooMany(len(choices))
	}
	return choices, nil
}

// normalize checks a request for free devices. No tag is invented: one for several is refused.
//
// S1.7
func (r DeviceRequest) normalize() (DeviceRequest, error) {
	switch {
	case r.Type == "":
		return r, errors.New("a request for devices needs their type")
	case !wordForm.MatchString(r.Type):
		return r, fmt.Errorf("%q is not a valid type", r.Type)
	case r.Count < 0:
		return r, fmt.Errorf("a request for %d devices is not possible", r.Count)
	case r.Count > MaxInstanceDevices:
		return r, tooMany(r.Count)
	case r.Tag != "" && r.Count > 1:
		return r, fmt.Errorf("the tag %q is for one device, not for %d: request each with its own", r.Tag, r.Count)
	}
	r.Type = strings.ToUpper(r.Type)
	seen := map[string]bool{}
	for _, trait := range r.Traits {
		if !traitForm.MatchString(trait) {
			return r, fmt.Errorf("%q is not a valid trait: want capitals, digits and _, as HW_NVME_CES", trait)
		}
		if seen[trait] {
			return r, fmt.Errorf("the trait %s is requested twice", trait)
		}
		seen[trait] = true
	}
	return r, nil
}

// normalizeHost gives a host's name in lower case; "" stays.
func normalizeHost(host string) (string, error) {
	if host != "" && !hostForm.MatchString(host) {
		return host, fmt.Errorf("%q is not a valid host name", host)
	}
	return strings.ToLower(host), nil
}

// normalizeAddresses gives the guest's IP addresses in their canonical form.
func normalizeAddresses(given []string) ([]string, error) {
	var addresses []string
	for _, text := range given {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" || address.IsUnspecified() || address.IsMulticast() {
			return given, fmt.Errorf("%q is not a valid IP address of a guest", text)
		}
		canonical := address.Unmap().String()
		if slices.Contains(addresses, canonical) {
			return given, fmt.Errorf("the address %s is given twice", canonical)
		}
		addresses = append(addresses, canonical)
	}
	return addresses, nil
}
