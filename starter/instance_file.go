package main

import (
	"context"
	"errors"

	"burnish/internal/device"
	"burnish/internal/yamlfile"
	"burnish/workflows/contract"
)

// parseInstanceFile reads a request file of `instance bind` and `instance attach`. Its error
// names the line.
func parseInstanceFile(data []byte) (contract.InstanceBindInput, error) {
	var in contract.InstanceBindInput
	r := &yamlfile.Reader{}
	body := r.Parse(data)
	if len(r.Problems()) == 0 && body.Nothing() {
		return in, errors.New("must be a mapping with the keys devices or requests")
	}
	for key, value := range r.Mapping(body, "a request file", "devices", "requests", "host", "project", "addresses") {
		switch key {
		case "devices":
			for _, node := range r.List(value, key) {
				in.Devices = append(in.Devices, readChoice(r, node))
			}
		case "requests":
			for _, node := range r.List(value, key) {
				in.Requests = append(in.Requests, readRequest(r, node))
			}
		case "host":
			in.Host = r.Text(value, key)
		case "project":
			in.Project = notEmpty(r, value, key)
		default:
			for _, node := range r.List(value, key) {
				in.Addresses = append(in.Addresses, notEmpty(r, node, "an address"))
			}
		}
	}
	if err := firstProblem(r); err != nil {
		return in, err
	}
	return in.Normalize()
}

// notEmpty reads a value as it is written: a project's ID may look like a number.
func notEmpty(r *yamlfile.Reader, node yamlfile.Node, what string) string {
	if node.Nothing() {
		r.Problem(node, "%s is empty", what)
		return ""
	}
	text := r.Scalar(node, what)
	if text == "" && len(r.Problems()) == 0 {
		r.Problem(node, "%s is empty", what)
	}
	return text
}

// readTag reads a tag, which must be written as text.
func readTag(r *yamlfile.Reader, node yamlfile.Node) string {
	tag := r.Text(node, "tag")
	if len(r.Problems()) > 0 {
		return tag
	}
	if err := device.CheckTag(tag); err != nil {
		r.Problem(node, "%s", err)
	}
	return tag
}

// readChoice reads one device.
func readChoice(r *yamlfile.Reader, node yamlfile.Node) contract.DeviceChoice {
	var c contract.DeviceChoice
	if node.Nothing() {
		r.Problem(node, "a device must be a mapping, not nothing")
	}
	for key, value := range r.Mapping(node, "a device", "name", "tag", "guest") {
		switch key {
		case "name":
			c.Name = r.Text(value, key)
		case "tag":
			c.Tag = readTag(r, value)
		default:
			for _, item := range r.List(value, key) {
				c.Guest = readGuest(r, item, c.Guest)
			}
		}
	}
	if len(r.Problems()) > 0 {
		return c
	}
	checked, err := contract.InstanceDetachInput{Devices: []string{c.Name}}.Normalize()
	if err != nil {
		r.Problem(node, "%s", err)
		return c
	}
	c.Name = checked.Devices[0]
	return c
}

// readGuest adds one address of a device in the guest.
func readGuest(r *yamlfile.Reader, node yamlfile.Node, known []contract.GuestAddress) []contract.GuestAddress {
	var found contract.GuestAddress
	texts := guestKeys(&found)
	if node.Nothing() {
		r.Problem(node, "an item of guest must be a mapping, not nothing")
	}
	for key, value := range r.Mapping(node, "an item of guest", "bus", "address", "path", "devname") {
		*texts[key] = notEmpty(r, value, key)
	}
	if len(r.Problems()) > 0 {
		return known
	}
	all, err := appendGuest(known, found)
	if err != nil {
		r.Problem(node, "%s", err)
	}
	return all
}

// readRequest reads one request for free devices.
func readRequest(r *yamlfile.Reader, node yamlfile.Node) contract.DeviceRequest {
	request := contract.DeviceRequest{Count: 1}
	if node.Nothing() {
		r.Problem(node, "a request must be a mapping, not nothing")
	}
	texts := map[string]*string{"type": &request.Type, "vendor": &request.Vendor, "model": &request.Model}
	for key, value := range r.Mapping(node, "a request", "type", "count", "traits", "tag", "vendor", "model",
		"live_migratable") {
		switch key {
		case "count":
			n, ok := r.Uint32(value, key)
			if ok && (n == 0 || n > contract.MaxInstanceDevices) {
				r.Problem(value, "count must be a number from 1 to %d", contract.MaxInstanceDevices)
			}
			request.Count = int(n)
		case "traits":
			for _, item := range r.List(value, key) {
				request.Traits = append(request.Traits, r.Text(item, "a trait"))
			}
		case "tag":
			request.Tag = readTag(r, value)
		case "live_migratable":
			request.LiveMigratable = r.Bool(value, key)
		default:
			*texts[key] = notEmpty(r, value, key)
		}
	}
	if len(r.Problems()) > 0 {
		return request
	}
	checked, err := contract.InstanceBindInput{Requests: []contract.DeviceRequest{request}}.Normalize()
	if err != nil {
		r.Problem(node, "%s", err)
		return request
	}
	return checked.Requests[0]
}

// readInstanceFile reads the file that the operator named.
func (a *app) readInstanceFile(ctx context.Context, path string) (contract.InstanceBindInput, error) {
	data, err := a.readFile(ctx, path)
	if err != nil {
		return contract.InstanceBindInput{}, err
	}
	in, err := parseInstanceFile(data)
	if err != nil {
		return in, usagef("%s: %s", path, err)
	}
	return in, nil
}
