package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"burnish/internal/api"
	"burnish/internal/api/access"
	"burnish/internal/api/approval"
	"burnish/internal/config"
	"burnish/internal/keystone"
	"burnish/internal/telemetry"
	"burnish/workflows/client"
)

// apiStopTimeout bounds the end of the API's requests in flight: those that Temporal has
// accepted are carried out also if their answer is cut off.
const apiStopTimeout = 10 * time.Second

// apiParts are what the settings of the API name.
type apiParts struct {
	gate        *access.Gate
	policy      *access.Policy
	certificate *access.Certificate // nil: none
}

// openAPI opens what the settings of the API name. The error has one line for each setting
// that is wrong.
func openAPI(settings config.Worker, logger *slog.Logger) (apiParts, error) {
	var (
		wrong []error
		parts apiParts
		err   error
	)
	complain := func(name string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("BURNISH_API_%s: %w", name, err))
		}
	}
	parts.policy, err = access.ReadPolicy(settings.APIPolicy, api.AdminRules())
	complain("POLICY", err)
	who := access.Settings{Hosts: settings.APIOwnNames(), Rate: settings.APIRate, Concurrency: settings.APIConcurrency,
		Log: logger}
	if settings.APITokens != "" {
		who.Tokens, err = access.OpenTokens(settings.APITokens, logger)
		complain("TOKENS", err)
	}
	who.Keystone, err = openKeystone(logger)
	complain("ADDRESS", err)
	if _, local := settings.APIUnix(); !local && err == nil && settings.APITokens == "" && who.Keystone == nil {
		complain("ADDRESS",
			errors.New("over TCP callers need tokens: set BURNISH_API_TOKENS, or OS_CLOUD or OS_AUTH_URL for those of "+
				"Keystone, or use unix:/path"))
	}
	if settings.APITLSCert != "" {
		parts.certificate, err = access.OpenCertificate(settings.APITLSCert, settings.APITLSKey, logger)
		complain("TLS_CERT", err)
	}
	parts.gate = access.NewGate(who)
	return parts, errors.Join(wrong...)
}

// openKeystone gives the Keystone that OS_* variables or clouds.yaml name; nil if none do.
func openKeystone(logger *slog.Logger) (*access.Keystone, error) {
	if !keystone.Given(os.Getenv) {
		return nil, nil
	}
	credentials, err := keystone.Read(os.Getenv)
	if err != nil || credentials.Token != "" {
		return nil, err
	}
	validator, err := keystone.NewValidator(credentials)
	if err != nil {
		return nil, err
	}
	return access.NewKeystone(validator, logger), nil
}

// serveAPI serves the HTTP API, if the settings say where. The stop lets requests in flight end,
// for a while.
func serveAPI(ctx context.Context, settings config.Worker, devices client.Connected,
	figures *telemetry.Telemetry, logger *slog.Logger, fatal func(error)) (stop func() error, err error) {
	if settings.APIAddress == "" {
		return nil, nil
	}
	parts, err := openAPI(settings, logger)
	if err != nil {
		return nil, usageError{err}
	}
	key, err := overrideKey(settings)
	if err != nil {
		return nil, usageError{fmt.Errorf("BURNISH_API_KEY: %w", err)}
	}
	var signer api.Signer
	if key != nil {
		signer = key
	}
	listener, err := access.Listen(ctx, settings.APIAddress, parts.certificate)
	if err != nil {
		return nil, usageError{fmt.Errorf("BURNISH_API_ADDRESS: %w", err)}
	}
	web := access.NewServer(parts.gate.Wrap(api.New(api.Options{
		Devices:       devices,
		Authenticator: parts.gate,
		Policy:        parts.policy,
		Guards:        parts.gate,
		Signer:        signer,
		Log:           logger,
		Metrics:       figures.Metrics(),
		Ready:         figures.Ready,
	})), logger)
	logger.Info("the HTTP API answers", "address", settings.APIAddress)
	return serveHTTP(web, listener, "the HTTP API at "+settings.APIAddress, min(apiStopTimeout, settings.GracefulStop),
		logger, fatal), nil
}

// serveHTTP serves until stop is called, which lets requests in flight end, for a while.
func serveHTTP(web *http.Server, listener net.Listener, what string, patience time.Duration, logger *slog.Logger,
	fatal func(error)) (stop func() error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fatal(fmt.Errorf("%s: %w", what, err))
		}
	}()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := web.Shutdown(ctx); err != nil {
			logger.Warn("requests are cut off; what they have requested may still be carried out", "server", what, "error", err)
			if err := web.Close(); err != nil {
				logger.Debug("closing a server", "server", what, "error", err)
			}
		}
		<-ended
		return nil
	}
}

// overrideKey reads the key by which the API signs overrides and the workflows know them; nil
// if overrides are off.
func overrideKey(settings config.Worker) (*approval.Key, error) {
	if settings.APIKey == "" || !settings.Role.Controls() {
		return nil, nil
	}
	return approval.ReadKey(settings.APIKey)
}
