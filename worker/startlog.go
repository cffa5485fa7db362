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
	may, err := rules.Content()
	if err != nil {
		return
	}
	list := func(all []string) []string { return append([]string{}, all...) } // an empty one is [] in JSON
	specs := []string{}
	for _, entry := range may.Specs {
		specs = append(specs, string(entry.JSON))
	}
	about := []any{
		logs.File, settings.HostFile, logs.Drivers, settings.Drivers, logs.Paths, list(may.Paths), logs.Specs, specs,
		logs.Scripts, list(slices.Sorted(maps.Keys(may.Scripts))), logs.Nodes, list(may.Nodes), logs.Fake, may.Fake,
		logs.Secrets, may.Secrets,
	}
	logger.Info(logs.Rules, about...)
}
