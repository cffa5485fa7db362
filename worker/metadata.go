package main

import (
	"context"
	"fmt"
	"log/slog"

	"burnish/internal/api/access"
	"burnish/internal/api/guest"
	"burnish/internal/config"
	"burnish/workflows/client"
)

// metadataSecret gives the function that reads the secret of Nova's metadata proxy for each
// signed request, so that a new one needs no restart; nil if there is none.
func metadataSecret(settings config.Worker) (func() ([]byte, error), error) {
	if settings.MetadataSecretFile == "" {
		return nil, nil
	}
	read := func() ([]byte, error) { return guest.ReadSecret(settings.MetadataSecretFile) }
	_, err := read()
	return read, err
}

// serveMetadata serves guests their metadata, if the settings say where.
func serveMetadata(ctx context.Context, settings config.Worker, devices *client.Client, logger *slog.Logger,
	fatal func(error)) (stop func() error, err error) {
	if settings.MetadataAddress == "" {
		return nil, nil
	}
	secret, err := metadataSecret(settings)
	if err != nil {
		return nil, usageError{fmt.Errorf("BURNISH_METADATA_SECRET_FILE: %w", err)}
	}
	listener, err := access.Listen(ctx, settings.MetadataAddress, nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("BURNISH_METADATA_ADDRESS: %w", err)}
	}
	web := guest.NewServer(guest.Options{Instances: devices, Secret: secret, Log: logger})
	logger.Info("the metadata service answers", "address", settings.MetadataAddress, "signed", secret != nil)
	return serveHTTP(web, listener, "the metadata service at "+settings.MetadataAddress,
		min(apiStopTimeout, settings.GracefulStop), logger, fatal), nil
}
