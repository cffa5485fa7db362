package steps

import (
	"context"
	"fmt"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// ConsolidateNamespaces replaces all namespaces by one of the full size, unless that is
// the layout already (S2.57, F17). It erases nothing by itself: the data of a deleted
// namespace may be readable in the new one. A second run finds it done.
func ConsolidateNamespaces() Step {
	return Step{
		Step: clean.Step{
			Name: "consolidate_namespaces", Interface: "deploy", Phase: clean.Erase, Priority: 80, Version: 1, Abortable: true,
			Applies: needsConsolidation, Timeout: fixedBudget,
		},
		Writes: true,
		Run:    runConsolidate,
	}
}

// needsConsolidation says whether the namespaces may have to be rearranged, and can be.
// Zeroes reach only what is in a namespace: any layout but one namespace of the full size
// is changed into that before it is zeroed, an unknown layout too (S2.57, F17). A sanitize
// reaches everything whatever the layout is; where it may leave no namespace, one is
// created.
func needsConsolidation(s clean.Subject) bool {
	if !s.Capabilities.ManageNamespaces {
		return false
	}
	if s.Operation.Sanitizes() {
		return s.Layout == device.LayoutNone || s.Layout == device.LayoutUnknown
	}
	return s.Operation.Overwrites() && s.Layout != device.LayoutWhole
}

func runConsolidate(ctx context.Context, w *Work) (Outcome, error) {
	drive, ok := w.Device.(hardware.NamespaceManager)
	if !ok {
		return Outcome{}, unsupported(w, "manage namespaces")
	}
	before, err := drive.Layout(ctx)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Method: "namespace_management", Note: "the device has one namespace of the full size"}
	if before != device.LayoutWhole {
		if err := drive.Consolidate(ctx, func() error { return w.Checkpoint(0) }); err != nil {
			return Outcome{}, err
		}
		out.Note = fmt.Sprintf("created one namespace of %d bytes (before: %s)", w.Enrolled.Size, before)
	}
	if err := drive.CheckComplete(ctx); err != nil {
		return Outcome{}, err
	}
	return out, w.Device.Check(ctx)
}

// requireWholeDevice fails unless the Handle reaches everything that a tenant could write
// to.
func requireWholeDevice(ctx context.Context, w *Work) error {
	if drive, ok := w.Device.(hardware.NamespaceManager); ok {
		return drive.CheckComplete(ctx)
	}
	return nil
}
