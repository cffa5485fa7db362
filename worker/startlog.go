package main

import (
	"log/slog"
	"maps"
	"slices"

	"burnish/internal/config"
	"burnish/internal/host"
	"burnish/internal/logs"
)

// logSettings writes what the worker starts with: its settings, variables that are none, and
// what may be destroyed on its host.
func logSettings(logger *slog.Logger, settings config.Worker) {
	_, unknown := config.Given()
	for _, variable := range unknown {
		about := []any{logs.Variable, variable}
		if near := config.Nearest(variable); near != "" {
			about = append(about, logs.Nearest, near)
		}
		logger.Warn(logs.UnknownSetting, about...)
	}
	about := []any{logs.Version, version}
	for _, s := range settings.Effective() {
		about = append(about, slog.String(s.Variable, s.Value))
	}
	logger.Info(logs.Settings, about...)
	if settings.Role.Hosts() {
		logRules(logger, settings)
	}
}

// logRules writes the rules of host.yaml. A file that is not valid ends the start with its
// mistakes, and is left out here.
func logRules(logger *slog.Logger, settings config.Worker) {
	rules, err := host.WorkerRules(settings.HostFile, settings.StateDir, settings.Role == config.RoleAll)
	if err != nil {
		return
	}
	about := []any{logs.File, settings.HostFile, logs.Drivers, settings.Drivers}
	add := func(key string, value any, err error) {
		if err != nil {
			value = err.Error()
		} else if list, ok := value.([]string); ok {
			value = append([]string{}, list...) // an empty one is [] in JSON
		}
		about = append(about, key, value)
	}
	paths, err := rules.Paths()
	add(logs.Paths, paths, err)
	entries, err := rules.DeviceSpecs()
	specs := make([]string, 0, len(entries))
	for _, entry := range entries {
		specs = append(specs, string(entry.JSON))
	}
	add(logs.Specs, specs, err)
	scripts, err := rules.Scripts()
	add(logs.Scripts, slices.Sorted(maps.Keys(scripts)), err)
	nodes, err := rules.Nodes()
	add(logs.Nodes, nodes, err)
	add(logs.Fake, rules.AllowFake() == nil, nil)
	secrets, err := rules.SecretsFile()
	add(logs.Secrets, secrets, err)
	logger.Info(logs.Rules, about...)
}
