package lifecycle_test

import (
	"fmt"
	"log/slog"
	"strings"
)

// workflowLog keeps what the workflow logs as an error. All lines go to log, if the test has
// one.
type workflowLog struct{ w *deviceEnv }

func (l *workflowLog) Debug(message string, with ...any) { l.write(slog.LevelDebug, message, with) }
func (l *workflowLog) Info(message string, with ...any)  { l.write(slog.LevelInfo, message, with) }
func (l *workflowLog) Warn(message string, with ...any)  { l.write(slog.LevelWarn, message, with) }
func (l *workflowLog) write(level slog.Level, message string, with []any) {
	if l.w.log != nil {
		l.w.log.Log(l.w.t.Context(), level, message, with...)
	}
}
func (l *workflowLog) Error(message string, with ...any) {
	l.write(slog.LevelError, message, with)
	if strings.HasPrefix(message, "Deserialization error") { // the SDK logs this for a corrupt signal
		return
	}
	l.w.defects = append(l.w.defects, fmt.Sprintln(append([]any{message}, with...)...))
}
