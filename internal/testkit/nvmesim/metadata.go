package nvmesim

import (
	"encoding/binary"
	"slices"
)

// featureNamespaceMetadata is the host metadata of a namespace; the two features before it
// are the controller's.
const featureNamespaceMetadata = 0x7f

func isMetadata(feature uint8) bool { return feature >= 0x7d && feature <= featureNamespaceMetadata }

// metadataOwner is the namespace of a feature's elements, 0 for the controller.
func (c *call) metadataOwner(feature uint8) uint32 {
	if feature == featureNamespaceMetadata {
		return c.NSID
	}
	return 0
}

// hasMetadata refuses a feature that has no elements.
func (s *slot) hasMetadata(c *call, feature uint8) bool {
	switch {
	case !s.Controller.HostMetadata:
		c.Status = InvalidField
	case feature == featureNamespaceMetadata && s.namespace(c.NSID) == nil:
		c.Status = InvalidNamespace
	}
	return c.Status == Success
}

// metadata returns every element of a feature, each with a value.
func (s *slot) metadata(c *call, feature uint8) error {
	if !s.hasMetadata(c, feature) {
		return nil
	}
	answer := []byte{0, 0}
	for _, e := range s.Controller.Metadata {
		if e.Feature == feature && e.NSID == c.metadataOwner(feature) {
			answer[0]++
			answer = append(answer, e.Type, 1, 6, 0)
			answer = append(answer, "tenant"...)
		}
	}
	if err := c.writeData(answer); err != nil {
		return err
	}
	return c.setResult(0)
}

// setMetadata adds or deletes the elements that the data names.
func (s *slot) setMetadata(c *call, feature uint8) error {
	data, err := c.readData()
	if err != nil || !s.hasMetadata(c, feature) {
		return err
	}
	if len(data) != 4096 {
		return c.refuse(InvalidField)
	}
	left := data[2:]
	for range data[0] {
		e := Element{Feature: feature, Type: left[0] & 0x3f, NSID: c.metadataOwner(feature)}
		left = left[4+binary.LittleEndian.Uint16(left[2:]):]
		switch c.CDW[1] >> 13 & 3 {
		case 0, 2:
			s.Controller.Metadata = append(s.Controller.Metadata, e)
		case 1:
			s.Controller.Metadata = slices.DeleteFunc(s.Controller.Metadata, func(had Element) bool { return had == e })
		default:
			return c.refuse(InvalidField)
		}
	}
	return c.setResult(0)
}
