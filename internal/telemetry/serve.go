package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Handler answers /metrics, /healthz and /readyz, and GET and HEAD only.
func (t *Telemetry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Metrics())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := t.Ready(r.Context()); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, "ready")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	if _, err := io.WriteString(w, text+"\n"); err != nil {
		return // the caller has gone
	}
}

// The limits of a connection. An answer may wait for one round of the fleet's figures.
const (
	headerTimeout = 5 * time.Second
	requestLimit  = 10 * time.Second
	answerTimeout = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 8 << 10
	closeTimeout  = 2 * time.Second
)

// Serve serves Handler at an address until stop is called.
func (t *Telemetry) Serve(address string) (stop func() error, err error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler: t.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: requestLimit, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.log.Info("metrics are served", "address", listener.Addr().String())
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err := server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) { // an answer is under way
			err = server.Close()
		}
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		if err != nil {
			return fmt.Errorf("end the service of metrics: %w", err)
		}
		return nil
	}, nil
}
