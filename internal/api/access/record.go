package access

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/google/uuid"
)

// RequestIDHeader names a request in its answer, and in the log.
const RequestIDHeader = "X-Openstack-Request-Id"

// Record is what is known of one request, for the line that a change leaves in the log.
type Record struct {
	// ID is the caller's own name of the request, or one that is given to it here.
	ID string
	// Principal is set once the request is authenticated.
	Principal Principal
	// Change, Device and Reason are set by who knows them: Change says that the request may
	// change something.
	Change         bool
	Device, Reason string
}

type recordKey struct{}

// RecordOf gives the record of the request that has this context.
func RecordOf(ctx context.Context) *Record {
	if r, ok := ctx.Value(recordKey{}).(*Record); ok {
		return r
	}
	return &Record{ID: newRequestID()}
}

func newRequestID() string { return "req-" + uuid.NewString() }

// Wrap gives each request an ID, which the answer carries, and writes one line for each
// change that an authenticated principal has requested, whatever came of it. It never has a
// token, nor the query.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record := &Record{ID: newRequestID()}
		w.Header().Set(RequestIDHeader, record.ID)
		if p, ok := r.Context().Value(peerKey{}).(peer); ok {
			r.RemoteAddr = p.id() // net/http has "@" or ""
		}
		answered := &statusWriter{ResponseWriter: w}
		defer func() {
			if !record.Change || record.Principal.ID == "" {
				return
			}
			g.Log.Info("API: change", "by", clip(record.Principal.Name), "principal", clip(record.Principal.ID), "project",
				record.Principal.Project,
				"from", r.RemoteAddr, "method", r.Method, "path", clip(r.URL.Path), "device", clip(record.Device),
				"status", answered.code(), "request", record.ID, "reason", clip(record.Reason))
		}()
		next.ServeHTTP(answered, r.WithContext(context.WithValue(r.Context(), recordKey{}, record)))
	})
}

// clip bounds what a line of the log has of a caller's text.
func clip(text string) string {
	const longest = 300
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return text
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) code() slog.Value {
	if w.status == 0 {
		return slog.IntValue(http.StatusOK)
	}
	return slog.IntValue(w.status)
}
