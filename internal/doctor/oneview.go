package doctor

import (
	"strings"

	"burnish/internal/device"
	"burnish/internal/oneview"
)

// oneview reads oneview.yaml as a control worker would.
func (m machine) oneview() {
	const check = "oneview"
	if m.settings.OneView == "" {
		return
	}
	names, err := oneview.CheckFile(m.settings.OneView)
	switch f, ok := device.AsFault(err); {
	case ok:
		m.Fail(check, f.Remedy, "%s", f.Message)
	case err != nil:
		m.Fail(check, "correct it; no restart is needed", "%v", err)
	case len(names) == 0:
		m.Warn(check, "see docs/oneview.md", "%s names no appliance", m.settings.OneView)
	default:
		m.OK(check, "%s has %s", m.settings.OneView, strings.Join(names, ", "))
	}
}
