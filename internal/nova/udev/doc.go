// Package udev writes the udev rules by which a guest finds its devices by their tags
// (S1.27): it reads a metadata document, ours or Nova's, and says for each tagged device which
// of the guest's devices it is.
//
// Only the bytes of tags, serials, addresses and names that mean nothing to udev reach a rule:
// a tag is encoded one to one ([Encode]), what is matched is escaped, or the device is left
// out and a comment says why. A device that cannot be distinguished from another of the document with
// other tags is left out too: no rule marks the wrong one.
package udev
