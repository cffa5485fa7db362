package main

import (
	"burnish/internal/api/approval"
	"burnish/internal/config"
)

// overrideKey reads the key by which the API signs overrides and the workflows know them; nil
// if overrides are off.
func overrideKey(settings config.Worker) (*approval.Key, error) {
	if settings.APIKey == "" || !settings.Role.Controls() {
		return nil, nil
	}
	return approval.ReadKey(settings.APIKey)
}
