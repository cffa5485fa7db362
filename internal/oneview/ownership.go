package oneview

import "burnish/internal/device"

// Owner says who has a server by the profile on it (S4.1–S4.3): its URI, "" for none, and its
// name. A profile whose URI is not recorded is Burnish's only while one is being applied, and
// if the device's UUID is its name: the worker ended between the two (S4.24).
func (s Server) Owner(profile, name string) device.Ownership {
	switch {
	case profile == "":
		return device.PoolFree
	case s.owns(profile, name):
		return device.PoolOurs
	}
	return device.PoolTaken
}

// owns: the profile is Burnish's, wherever it is.
func (s Server) owns(profile, name string) bool {
	if profile == "" {
		return false
	}
	return profile == s.Recorded || s.Applying && s.UUID != "" && name == s.UUID
}
