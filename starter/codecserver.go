package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"burnish/internal/api/access"
	"burnish/internal/codec"
	"burnish/internal/config"
	"burnish/internal/device"
)

func (a *app) codecServerCommand() *cobra.Command {
	address, webUI := "127.0.0.1:8234", "http://127.0.0.1:8233"
	cmd := &cobra.Command{
		Use:   "codec-server",
		Short: "let Temporal's Web UI in your browser show what is encrypted",
		Long: `It serves until it is interrupted, with the keys of ` + config.VarCodecKeys + `. Give its address
to the Web UI under Configure Codec Server, as http://127.0.0.1:8234, and reload the page. The browser sends
it what the Web UI shows, and the keys stay here. It listens on loopback only, because it
decrypts for everybody who reaches it, and refuses pages of other sites than --web-ui.`,
		Example: "  BURNISH_CODEC_KEYS=~/.burnish/codec.keys burnish codec-server --web-ui https://temporal.example.org",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			origin, err := url.Parse(webUI)
			if err != nil || origin.Scheme == "" || origin.Host == "" {
				return usagef("--web-ui %s: it is not of the form http://HOST:PORT", webUI)
			}
			host, _, err := net.SplitHostPort(address)
			if err != nil || !net.ParseIP(host).IsLoopback() {
				return usagef("--address %s: it is not an address of loopback and a port, as in 127.0.0.1:8234", address)
			}
			path := a.getenv(config.VarCodecKeys)
			if path == "" {
				return failf(device.CodeInvalidSetting, "set it to the file that the workers have",
					"%s is not set", config.VarCodecKeys)
			}
			keys, err := codec.Open(path, slog.New(slog.NewTextHandler(a.stderr, nil)))
			if err != nil {
				return failf(device.CodeInvalidSetting, "correct the file", "%s: %s", config.VarCodecKeys, err)
			}
			return a.serveCodec(cmd.Context(), address, keys.Handler(origin.Scheme+"://"+origin.Host))
		},
	}
	cmd.Flags().StringVar(&address, "address", address, "where it listens: an address of loopback and a port")
	cmd.Flags().StringVar(&webUI, "web-ui", webUI, "the Web UI's address in the browser")
	return cmd
}

// serveCodec serves until the operator interrupts it.
func (a *app) serveCodec(ctx context.Context, address string, handler http.Handler) error {
	listener, err := access.Listen(ctx, address, nil)
	if err != nil {
		return failf(device.CodeIO, "choose another --address", "%s", err)
	}
	server := access.NewServer(handler, slog.New(slog.DiscardHandler))
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := a.print("codec server at http://" + listener.Addr().String() + "\n"); err != nil {
		return errors.Join(err, server.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return failf(device.CodeIO, "", "%s", err)
	}
	return nil
}
