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

// inventoryTimeout limits the request to the inventory.
const inventoryTimeout = 30 * time.Second

// inventory runs the checks of a control worker's start. Placement must also answer.
func (m machine) inventory() {
	const check = "inventory"
	if kinds := backends.Kinds(); !slices.Contains(kinds, m.settings.Inventory) {
		m.Fail(check, "set BURNISH_INVENTORY to one of "+strings.Join(kinds, ", "), "unknown inventory %q", m.settings.Inventory)
		return
	}
	if m.settings.Inventory != "placement" {
		if m.settings.NovaBroker != "" {
			m.Fail(check, "set BURNISH_INVENTORY=placement", "BURNISH_AMQP_URL needs Placement")
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
		_, err = store.Reservation(ctx, uuid.NewString()) // expected: no such provider
	}
	switch f, ok := device.AsFault(err); {
	case ok && f.Code == device.CodeNoProvider:
		m.OK(check, "Placement answers, as %s", m.settings.Cloud)
	case ok:
		m.Fail(check, f.Remedy, "%s", f.Message)
	default:
		m.Fail(check, "correct it; the control worker does not start before", "%v", err)
	}
}
