package doctor

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/internal/inventory/backends"
	"burnish/internal/inventory/placement"
)

// inventoryTimeout bounds what the inventory is asked.
const inventoryTimeout = 30 * time.Second

// inventory asks for what keeps the control worker from starting, and, where it is
// Placement, for an answer.
func (m machine) inventory() {
	const check = "inventory"
	if kinds := backends.Kinds(); !slices.Contains(kinds, m.settings.Inventory) {
		m.Fail(check, "set BURNISH_INVENTORY to one of "+strings.Join(kinds, ", "), "there is no inventory %q", m.settings.Inventory)
		return
	}
	if m.settings.Inventory != "placement" {
		if m.settings.NovaBroker != "" {
			m.Fail(check, "set BURNISH_INVENTORY=placement", "BURNISH_AMQP_URL: notifications say where to look in Placement")
			return
		}
		m.OK(check, "%s", m.settings.Inventory)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), inventoryTimeout)
	defer cancel()
	store, err := backends.Open(ctx, m.settings.Inventory, backends.Options{Placement: placement.Settings{
		NovaHosts: m.settings.NovaHosts, Traits: m.settings.Traits, Log: slog.New(slog.DiscardHandler),
	}})
	if err == nil {
		_, err = store.Reservation(ctx, uuid.NewString()) // there is none, if it answers
	}
	switch f, ok := device.AsFault(err); {
	case ok && f.Code == device.CodeNoProvider:
		m.OK(check, "Placement answers, as %s", m.settings.Cloud)
	case ok:
		m.Fail(check, f.Remedy, "%s", f.Message)
	default:
		m.Fail(check, "until then the control worker does not start", "%v", err)
	}
}
