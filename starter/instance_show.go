package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

func (a *app) instanceShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show UUID",
		Short:   "show an instance: its devices, their roles and what is under way",
		Long:    "It needs a running control worker.",
		Example: "  burnish instance show 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 -o json",
		Args:    oneName("UUID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			instance, err := instanceID(args[0])
			if err != nil {
				return err
			}
			return a.devices(cmd.Context(), func(l deviceClient) error {
				ctx, cancel := a.requestContext(cmd.Context())
				defer cancel()
				s, err := l.Instance(ctx, instance)
				if err != nil {
					return a.explainOf(cmd.Context(), l, subject{instance: instance}, err)
				}
				return a.emit(s, func() string { return a.instanceTable(s) })
			})
		},
	}
}

// instanceTable is one instance for people: what does not apply is left out.
func (a *app) instanceTable(s contract.InstanceStatus) string {
	var rows [][]string
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key, value})
		}
	}
	add("instance", s.UUID)
	add("phase", string(s.Phase))
	add("under way", s.Doing)
	add("host", s.Host)
	if m := s.Move; m != nil {
		add("migration", fmt.Sprintf("%s from %s to %s, since %s", strings.ReplaceAll(m.Verb, "_", "-"), m.From, m.To,
			local(m.Since)))
		add("ended by", fmt.Sprintf("burnish instance confirm %s, or revert %s", s.UUID, s.UUID))
	}
	add("project", s.Project)
	add("addresses", strings.Join(s.Addresses, ", "))
	add("last error", s.LastError)
	add("created", local(s.CreatedAt))
	add("updated", local(s.UpdatedAt))
	text := a.pairs(rows)
	if len(s.Devices) == 0 {
		text += "\nno device\n"
	} else {
		text += "\n" + a.heldTable(s.Devices)
	}
	if s.Move != nil {
		text += "\non " + oneLine(s.Move.From) + ", until the migration ends\n" + a.heldTable(s.Move.Source)
	}
	if len(s.Unsettled) > 0 {
		text += "\nnot its own, and not answered yet\n" + a.heldTable(s.Unsettled)
	}
	if left := leftOut(s.Devices); len(left) > 0 {
		text += "\n" + strings.Join(left, "\n") + "\n"
	}
	if len(s.Acts) > 0 {
		rows := eventRows(contract.History{Acts: s.Acts}.Events())
		rows[0][1] = "ACT"
		text += "\n" + a.columns(rows)
	}
	return text
}

// heldTable lists devices with their roles.
func (a *app) heldTable(devices []contract.HeldDevice) string {
	rows := [][]string{{"DEVICE", "TYPE", "TAG", "BINDING", "GUEST", "SERIAL", "MAC"}}
	for _, d := range devices {
		var binding string
		if d.Binding > 0 {
			binding = strconv.Itoa(d.Binding)
		}
		rows = append(rows, []string{d.Name, d.Type, quoted(d.Tag), binding, guestText(d.Guest), d.Serial, d.MAC})
	}
	return a.columns(rows)
}

// guestText says where the guest finds a device, as far as that is known.
func guestText(guest []contract.GuestAddress) string {
	var all []string
	for _, g := range guest {
		parts := []string{g.Bus}
		for _, part := range []string{g.Address, g.Path, g.Devname, g.MAC} {
			if part != "" {
				parts = append(parts, quoted(part))
			}
		}
		all = append(all, strings.Join(parts, " "))
	}
	if len(all) == 0 {
		return "not known"
	}
	return strings.Join(all, ", ")
}

// leftOut names the devices that the guest's document cannot show, and why.
//
// S1.16
func leftOut(devices []contract.HeldDevice) (lines []string) {
	for _, d := range devices {
		if len(metadata.New(contract.InstanceStatus{Devices: []contract.HeldDevice{d}}).Devices) == 0 {
			lines = append(lines, oneLine(d.Name+" is not in the guest's document: its MAC is not known; the driver reports "+
				"none, or the host has not seen it yet"))
		}
	}
	return lines
}

// quoted gives a text of an operator or a tenant for one line of a terminal. One that is not a
// plain word is in quotes and escaped, so that two different ones never look alike.
func quoted(text string) string {
	if text == "-" { // which tables show where there is no text
		return `"-"`
	}
	plain := func(r rune) bool { return unicode.IsPrint(r) && !strings.ContainsRune(` "\`, r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	// Tables join blanks.
	return strings.ReplaceAll(strconv.Quote(text), "  ", ` \x20`)
}
