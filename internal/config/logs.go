package config

import (
	"log/slog"

	"burnish/internal/logs"
)

// Logs are the settings of the log.
type Logs struct {
	LogFormat logs.Format `env:"LOG_FORMAT" envDefault:"text" help:"the form of the log: text, or json with one object a line"`
	LogLevel  logs.Level  `env:"LOG_LEVEL" envDefault:"info" help:"the least that is logged: debug, info, warn or error"`
	Debug     bool        `env:"DEBUG" envDefault:"false" help:"the same as BURNISH_LOG_LEVEL=debug"`
}

// Least is the level of the least important lines that are logged.
func (l Logs) Least() slog.Level {
	if l.Debug {
		return slog.LevelDebug
	}
	return l.LogLevel.Level()
}
