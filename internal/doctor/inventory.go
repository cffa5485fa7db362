package doctor

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"burnish/internal/config"
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
		m.Fail(check, "set BURNISH_INVENTORY to one of "+strings.Join(kinds, ", "), "unknown inventory %q",
			m.settings.Inventory)
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
	store, err := backends.Open(ctx, m.settings.Inventory, backends.Options{Placement: placementSettings(m.settings)})
	if err == nil {
		_, err = store.Reservation(ctx, uuid.NewString()) // expected: no such provider
	}
	if f, ok := device.AsFault(err); ok && f.Code == device.CodeNoProvider {
		m.OK(check, "Placement answers, as %s", m.settings.Cloud)
	} else {
		m.fault(check, "correct it; the control worker does not start before", err)
	}
}

func placementSettings(w config.Worker) placement.Settings {
	return placement.Settings{NovaHosts: w.NovaHosts, Traits: w.Traits, Log: slog.New(slog.DiscardHandler)}
}

// PlacementTrial tries whether instances with a one-time-use device can be moved (S0.25). It is
// the one check that writes: a provider of its own, which it deletes.
func (f *Findings) PlacementTrial(ctx context.Context, w config.Worker) {
	const check = "moves of instances"
	if w.Inventory != "placement" {
		f.Fail(check, "run it with a control worker's environment: BURNISH_INVENTORY=placement and OpenStack's variables",
			"there is no Placement to try it on")
		return
	}
	var refusal string
	store, err := placement.Open(ctx, placementSettings(w))
	if err == nil {
		refusal, err = store.TryMove(ctx)
	}
	switch {
	case refusal != "":
		f.Warn(check, "upgrade Placement to 2025.2 or later; until then neither resize nor migrate them",
			"Placement refuses to move the allocation of a reserved device, so instances with a one-time-use device "+
				"cannot be resized or migrated: %s", refusal)
	case err == nil:
		f.OK(check, "Placement moves the allocation of a reserved device")
	}
	if err != nil {
		f.Fail(check, "", "%s", strings.ReplaceAll(err.Error(), "\n", "; ")) // which says what to do
	}
}
