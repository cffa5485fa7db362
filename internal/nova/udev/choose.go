package udev

import "slices"

// rulesOf are the conditions under which a device is the one with the index i: each list of
// them is enough. Without any, it says why.
func rulesOf(i int, entries []entry) ([][]match, string) {
	e := entries[i]
	if fault := e.check(); fault != "" {
		return nil, fault
	}
	base := e.base()
	id, identified := e.identity()
	at, placed := e.place()
	named, hasName := e.name()
	var apart [][]match // where it alone is, by its address and by its name
	for _, p := range []place{at, named} {
		if p.matches != nil && e.alone(entries, p.key) {
			apart = append(apart, p.matches)
		}
	}
	if !identified {
		switch {
		case apart != nil:
			return each(base, apart[:1], nil), ""
		case placed || hasName:
			return nil, "another device of the document has its address or name"
		case e.Serial != "" || e.MAC != "" || e.Address != "" && e.Address != "none":
			return nil, "its serial, MAC or address has no form that a rule can hold"
		}
		return nil, "neither serial, MAC, address nor name is known"
	}
	lines := id.visible(e, entries)
	if !e.unique(entries, func(id identity) string { return id.key }, id.key) {
		if apart == nil {
			return nil, "another device of the document has its serial or MAC, and no address parts them"
		}
		return each(base, lines, apart[0]), ""
	}
	switch {
	case e.Type == typeDisk && e.Bus == "pci" && placed && e.alone(entries, at.key):
		// Two disks may have one serial: the one on this bus is where the document says.
		return append(each(base, lines, at.matches), each(base, lines, []match{isNot("DEVPATH", "*/pci*:??/*")})...), ""
	case e.Type == typeDisk && e.Bus == "xen":
		// A Xen disk shows no serial.
		return append(each(base, lines, nil), each(base, apart, nil)...), ""
	}
	return each(base, lines, nil), ""
}

// base are the conditions of the type.
func (e entry) base() []match {
	switch e.Type {
	case typeDisk:
		return []match{is("SUBSYSTEM", "block")}
	case typeNIC:
		return []match{is("SUBSYSTEM", "net")}
	}
	return nil // its place says it
}

// visible adds what a virtio disk shows, unless another one shows the same.
func (id identity) visible(e entry, entries []entry) [][]match {
	if id.shortLine == nil || !e.unique(entries, func(id identity) string { return id.short }, id.short) {
		return id.lines
	}
	return append(slices.Clone(id.lines), id.shortLine)
}

// unique reports whether no entry of the type with other tags has this part of an identity.
func (e entry) unique(entries []entry, part func(identity) string, own string) bool {
	return !slices.ContainsFunc(entries, func(other entry) bool {
		id, ok := other.identity()
		return ok && part(id) == own && !e.sameRole(other)
	})
}

// alone reports whether no entry of the type with other tags has this place or name.
func (e entry) alone(entries []entry, key string) bool {
	return !slices.ContainsFunc(entries, func(other entry) bool {
		at, placed := other.place()
		named, hasName := other.name()
		return (placed && at.key == key || hasName && named.key == key) && !e.sameRole(other)
	})
}

// each puts what holds for all lines before and behind each.
func each(before []match, lines [][]match, behind []match) [][]match {
	all := make([][]match, 0, len(lines))
	for _, line := range lines {
		all = append(all, slices.Concat(before, line, behind))
	}
	return all
}
