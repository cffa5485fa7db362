package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// NewTraits are the standard traits that Debian 12's Placement is too old for.
var NewTraits = []string{"HW_PCI_ONE_TIME_USE", "HW_NVME_CES", "HW_NVME_BES", "HW_NVME_WZS"}

// Options says what kind of Placement a test wants.
type Options struct {
	// OldTraits leaves out NewTraits, as an older Placement does.
	OldTraits bool
	// Keystone makes Placement check each token there. Without it any token is the user's
	// name, and the user admin may do everything.
	Keystone *Keystone
	// CacheTokens makes it check each of them once in five minutes.
	CacheTokens bool
}

// Server is a Placement.
type Server struct{ *Service }

// emptyDatabase has tables and no rows. Making it takes seconds.
var emptyDatabase struct {
	sync.Once
	content []byte
	err     error
}

// Start starts a Placement with a database of its own, and ends it with the test.
// The test is skipped where Placement is not installed.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	SkipIfMissing(t)
	s, err := configure(t.Context(), t.TempDir(), o)
	require.NoError(t, err)
	s.serveTest(t)
	return s
}

// StartPlacement starts a Placement with its files in dir. The caller closes it.
func StartPlacement(ctx context.Context, dir string, o Options) (*Server, error) {
	s, err := configure(ctx, dir, o)
	if err == nil {
		err = s.serve(ctx)
	}
	return s, err
}

func configure(ctx context.Context, dir string, o Options) (*Server, error) {
	s := &Server{&Service{Dir: dir, name: "placement", forker: placementForker, program: placementAPI}}
	s.env = []string{"OS_PLACEMENT_CONFIG_DIR=" + dir}
	auth := "auth_strategy = noauth2"
	if o.Keystone != nil {
		auth = "auth_strategy = keystone\n" + o.Keystone.middleware(o.CacheTokens)
	}
	conf := filepath.Join(dir, "placement.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, `[DEFAULT]
state_path = %s
use_stderr = false
[placement_database]
connection = sqlite:///%s
sqlite_synchronous = false
sync_on_startup = false
[api]
%s
`, dir, s.database(), auth), 0o600); err != nil {
		return nil, err
	}
	e := &emptyDatabase
	e.Do(func() {
		if e.err = runPython(ctx, dir, s.env, "", placementManage, "--config-file", conf, "db", "sync"); e.err == nil {
			e.content, e.err = os.ReadFile(s.database())
		}
	})
	if err := errors.Join(e.err, os.WriteFile(s.database(), e.content, 0o600)); err != nil {
		return nil, err
	}
	// WAL, so that a test's own rows do not meet a locked database.
	rows := []statement{{SQL: "PRAGMA journal_mode=WAL"}}
	if !o.OldTraits {
		for _, trait := range NewTraits {
			rows = append(rows, statement{"INSERT INTO traits (name) VALUES (?)", []any{trait}})
		}
	}
	return s, s.execute(ctx, rows)
}

func (s *Server) database() string { return filepath.Join(s.Dir, "placement.sqlite") }

// statement is one SQL statement with its values.
type statement struct {
	SQL    string `json:"sql"`
	Values []any  `json:"values"`
}

// execute runs statements on the database, in one transaction. Each new row gets a
// creation time, without which Placement fails on it.
func (s *Server) execute(ctx context.Context, all []statement) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return runPython(ctx, s.Dir, nil, string(text), "-c", `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60)
for one in json.load(sys.stdin):
    db.execute(one["sql"], one["values"] or [])
when = "2026-01-01 00:00:00.000000"
for table in ("traits", "resource_providers", "resource_provider_traits", "inventories", "projects", "users",
              "consumers", "allocations"):
    db.execute("UPDATE %s SET created_at = ?, updated_at = ? WHERE created_at IS NULL" % table, (when, when))
db.commit()
`, s.database())
}

// Row is one provider that Fill creates.
type Row struct {
	UUID, Name string
	// Root is the UUID of the provider above it, "" for one of its own.
	Root      string
	Class     string
	Traits    []string
	Reserved  int
	Consumers []string
}

// Fill creates many providers at once, total 1 each, by writing Placement's database: by
// its API a thousand take minutes. Classes and traits must exist already.
func (s *Server) Fill(ctx context.Context, rows []Row) error {
	const provider = "(SELECT id FROM resource_providers WHERE uuid = ?)"
	const class = "(SELECT id FROM resource_classes WHERE name = ?)"
	var all []statement
	add := func(sql string, values ...any) { all = append(all, statement{sql, values}) }
	add("INSERT OR IGNORE INTO projects (id, external_id) VALUES (1, 'burnish-test')")
	add("INSERT OR IGNORE INTO users (id, external_id) VALUES (1, 'burnish-test')")
	for _, r := range rows {
		root, parent := r.Root, any(r.Root)
		if root == "" {
			root, parent = r.UUID, nil
		}
		add("INSERT INTO resource_providers (uuid, name, generation) VALUES (?, ?, 2)", r.UUID, r.Name)
		add("UPDATE resource_providers SET root_provider_id = "+provider+" WHERE uuid = ?", root, r.UUID)
		add("UPDATE resource_providers SET parent_provider_id = "+provider+" WHERE uuid = ?", parent, r.UUID)
		add("INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, "+
			"step_size, allocation_ratio)"+
			" VALUES ("+provider+", "+class+", 1, ?, 1, 1, 1, 1.0)", r.UUID, r.Class, r.Reserved)
		for _, trait := range r.Traits {
			add("INSERT INTO resource_provider_traits (resource_provider_id, trait_id) VALUES ("+provider+
				", (SELECT id FROM traits WHERE name = ?))", r.UUID, trait)
		}
		for _, consumer := range r.Consumers {
			add("INSERT INTO consumers (uuid, project_id, user_id, generation) VALUES (?, 1, 1, 1)", consumer)
			add("INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES ("+provider+", ?, "+
				class+", 1)", r.UUID, consumer, r.Class)
		}
	}
	return s.execute(ctx, all)
}

// Noauth is the environment of a client of a Placement without Keystone.
func Noauth(url string) func(string) string {
	return Environment(map[string]string{"OS_AUTH_TYPE": "none", "OS_PLACEMENT_ENDPOINT_OVERRIDE": url})
}

// Environment reads variables from a map.
func Environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

// Allocate gives each provider to the consumer of the same index by writing the database;
// the generation rises by one.
func (s *Server) Allocate(ctx context.Context, providers, consumers []string) error {
	all := []statement{
		{"INSERT OR IGNORE INTO projects (id, external_id) VALUES (1, 'burnish-test')", nil},
		{"INSERT OR IGNORE INTO users (id, external_id) VALUES (1, 'burnish-test')", nil},
	}
	for i, provider := range providers {
		all = append(all,
			statement{"INSERT INTO consumers (uuid, project_id, user_id, generation) VALUES (?, 1, 1, 1)", []any{consumers[i]}},
			statement{"INSERT INTO allocations (resource_provider_id, resource_class_id, consumer_id, used)" +
				" SELECT p.id, i.resource_class_id, ?, 1 FROM resource_providers p JOIN inventories i ON i.resource_provider_id " +
				"= p.id WHERE p.uuid = ?",
				[]any{consumers[i], provider}},
			statement{"UPDATE resource_providers SET generation = generation + 1 WHERE uuid = ?", []any{provider}})
	}
	return s.execute(ctx, all)
}

// Burn reserves each provider by writing the database; the generation rises by one.
func (s *Server) Burn(ctx context.Context, providers []string) error {
	var all []statement
	for _, provider := range providers {
		all = append(all,
			statement{"UPDATE inventories SET reserved = total WHERE resource_provider_id = (SELECT id FROM resource_providers WHERE uuid = ?)", []any{provider}},
			statement{"UPDATE resource_providers SET generation = generation + 1 WHERE uuid = ?", []any{provider}})
	}
	return s.execute(ctx, all)
}

// Deallocate ends the consumers' allocations by writing the database. The generations
// stay, as they do through Placement's API.
func (s *Server) Deallocate(ctx context.Context, consumers []string) error {
	var all []statement
	for _, consumer := range consumers {
		all = append(all, statement{"DELETE FROM allocations WHERE consumer_id = ?", []any{consumer}},
			statement{"DELETE FROM consumers WHERE uuid = ?", []any{consumer}})
	}
	return s.execute(ctx, all)
}
