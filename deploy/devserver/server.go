package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

// clusterName is written into every database: never change it.
const clusterName = "active"

// server is the running process: Temporal's services, a client to them and
// the Web UI once it is started.
type server struct {
	network  network
	temporal temporal.Server
	client   client.Client
	ui       *uiserver.Server
}

// startServer starts the four services. They may not answer yet: see awaitReady.
func startServer(db *database, n network, logger *slog.Logger, fatal func(string)) (*server, error) {
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, address := range map[primitives.ServiceName]string{
		primitives.FrontendService: n.dialAddress(),
		primitives.HistoryService:  loopbackAddress(n.history),
		primitives.MatchingService: loopbackAddress(n.matching),
		primitives.WorkerService:   loopbackAddress(n.worker),
	} {
		hosts[name] = static.Hosts{All: []string{address}, Self: address}
	}
	instance, err := temporal.NewServer(
		temporal.WithConfig(serverConfig(db, n)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithDynamicConfigClient(dynamicSettings()),
		temporal.WithLogger(serverLogger{to: logger, fatal: fatal}),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("make the server: %w", err)
	}
	if err := instance.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	c, err := client.NewLazyClient(client.Options{HostPort: n.dialAddress(), Logger: logger})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a client: %w", err), instance.Stop())
	}
	return &server{network: n, temporal: instance, client: c}, nil
}

// serverConfig is Temporal's static configuration for one process and one
// shard. The cluster's ID is left empty: Temporal makes one for a new database
// and keeps it there, so it is stable for as long as the file is.
func serverConfig(db *database, n network) *config.Config {
	internal := func(port int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback().String()}}
	}
	return &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback().String()},
		},
		Persistence: config.Persistence{
			DefaultStore:     "default",
			VisibilityStore:  "visibility",
			NumHistoryShards: 1, // fixed for the life of a database
			DataStores: map[string]config.DataStore{
				"default": {SQL: db.defaultStore()}, "visibility": {SQL: db.sqlConfig()},
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: n.dialAddress()},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		// No HTTP API beside gRPC: it would listen wherever the frontend does.
		Services: map[string]config.Service{
			string(primitives.FrontendService): {RPC: config.RPC{GRPCPort: n.frontend, BindOnIP: n.ip.String()}},
			string(primitives.HistoryService):  internal(n.history),
			string(primitives.MatchingService): internal(n.matching),
			string(primitives.WorkerService):   internal(n.worker),
		},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		PublicClient: config.PublicClient{HostPort: n.dialAddress()},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
	}
}

// awaitReady returns when the namespace answers and every search attribute
// may be used.
func (s *server) awaitReady(ctx context.Context, namespace string) error {
	err := poll(ctx, "temporal to answer", func(ctx context.Context) error {
		_, err := s.client.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	})
	if err != nil {
		return err
	}
	return ensureAttributes(ctx, s.client, namespace)
}

// startUI starts the Web UI and returns when it answers.
func (s *server) startUI(ctx context.Context, namespace string) error {
	s.ui = uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		TemporalGRPCAddress: s.network.dialAddress(),
		Host:                hostInURL(s.network.ip),
		Port:                s.network.ui,
		EnableUI:            true,
		DefaultNamespace:    namespace,
		DisableNewsFetch:    true, // no requests to the Internet
		HideLogs:            true,
		CORS:                uiconfig.CORS{CookieInsecure: true}, // plain HTTP
	}))
	// Start ends the process itself where it cannot listen.
	go func() { _ = s.ui.Start() }()
	return poll(ctx, "the web ui to answer", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.network.uiAddress()+"/healthz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("it answered %s", response.Status)
		}
		return errors.Join(err, response.Body.Close())
	})
}

// stop ends the UI first, which is a client of the rest.
func (s *server) stop() error {
	if s.ui != nil {
		s.ui.Stop()
	}
	s.client.Close()
	if err := s.temporal.Stop(); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	return nil
}

func loopback() net.IP { return net.IPv4(127, 0, 0, 1) }

func loopbackAddress(port int) string { return joinHostPort(loopback(), port) }

// hostInURL writes an address the way that "host:port" wants it.
func hostInURL(ip net.IP) string {
	if ip.To4() == nil {
		return "[" + ip.String() + "]"
	}
	return ip.String()
}
