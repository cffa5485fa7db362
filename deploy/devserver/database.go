package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	persistencesql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// retention is how long the history of an ended device stays readable.
	retention = 30 * 24 * time.Hour

	// What SQLite itself waits for: 1 (normal) keeps its writes in their order on the disk, and wal waits for those that
	// somebody is answered for; 0 is nothing.
	synchronousNormal = 1
	synchronousOff    = 0
)

// database is where the server keeps its state: a file that this process
// alone holds, or memory.
type database struct {
	path        string // resolved; empty: memory
	synchronous int
	lock        *os.File
}

// openDatabase claims the file, creating it where it is missing, or refuses
// in one line. Its directory must exist: a path that was mistyped must not
// become an empty fleet. Empty path: memory.
func openDatabase(path string, unsafeFast bool) (*database, error) {
	db := &database{synchronous: synchronousNormal}
	if unsafeFast {
		db.synchronous = synchronousOff
	}
	if path == "" {
		return db, nil
	}
	resolved, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w: create its directory, or choose another --db", path, plain(err))
	}
	db.path = resolved
	// The lock is a file of its own: SQLite drops its locks when anyone in the
	// process closes a descriptor of the database.
	db.lock, err = os.OpenFile(resolved+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("database %s is not writable: %w: grant access to its directory, or choose another --db",
			path, plain(err))
	}
	if err := syscall.Flock(int(db.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("database %s is in use by another burnish-devserver: stop it first, or choose another --db", path)
		} else {
			err = fmt.Errorf("lock database %s: %w", path, err)
		}
		return nil, errors.Join(err, db.lock.Close())
	}
	file, err := os.OpenFile(resolved, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		err = fmt.Errorf("database %s is not writable: %w: grant access to it, or choose another --db", path, plain(err))
		return nil, errors.Join(err, db.lock.Close())
	}
	return db, file.Close()
}

// resolve follows symbolic links, so that one file has one lock whatever it is
// called. The file itself may be missing.
func resolve(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if !errors.Is(err, os.ErrNotExist) {
		return resolved, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	return filepath.Join(dir, filepath.Base(absolute)), err
}

// plain drops the path from an error of the os package: the message names it.
func plain(err error) error {
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// String says where the state is and what a crash of the machine can cost.
func (db *database) String() string {
	switch {
	case db.path == "":
		return "in memory"
	case db.synchronous == synchronousOff:
		return db.path + " (unsafe-fast: not synced)"
	default:
		return db.path
	}
}

// sqlConfig is the connection Temporal opens. There is exactly one: SQLite
// writes one at a time, and four connections were slower than one.
func (db *database) sqlConfig() *config.SQL {
	if db.path == "" {
		return &config.SQL{
			PluginName:        sqliteplugin.PluginName,
			DatabaseName:      "burnish-" + strconv.Itoa(os.Getpid()),
			ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
			MaxConns:          1, MaxIdleConns: 1,
		}
	}
	return &config.SQL{
		PluginName: sqliteplugin.PluginName,
		// The name becomes part of a URI.
		DatabaseName: (&url.URL{Path: db.path}).EscapedPath(),
		ConnectAttributes: map[string]string{
			"mode":         "rw",
			"journal_mode": "wal",
			"synchronous":  strconv.Itoa(db.synchronous),
			// A concurrent reader, such as sqlite3, delays a write and does not fail it.
			"busy_timeout": "5000",
			// Default 2 MB, and a checkpoint each 4 MB: most pages are written again within the next few turnovers.
			"cache_size":         "-65536", // KiB
			"wal_autocheckpoint": "4000",   // pages
		},
		MaxConns: 1, MaxIdleConns: 1,
	}
}

// defaultStore is the same connection for all but visibility; of a file, by the plugin of our own.
func (db *database) defaultStore() *config.SQL {
	c := db.sqlConfig()
	if db.path != "" {
		c.PluginName = storePlugin
	}
	return c
}

// prepare makes the schema in a new database and the namespace where it is
// missing. A crash in between leaves nothing half done.
func (db *database) prepare(namespace string) error {
	// Memory gets its schema from the plugin, with its first connection.
	if db.path != "" {
		if err := db.makeSchema(); err != nil {
			return fmt.Errorf("database %s: %w", db.path, err)
		}
	}
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, namespace, false, searchAttributes())
	if err != nil {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(retention)
	if err := sqliteschema.CreateNamespaces(db.sqlConfig(), ns); err != nil {
		return fmt.Errorf("make namespace %s: %w", namespace, err)
	}
	return nil
}

// makeSchema fills an empty database in one transaction and leaves Temporal's
// own alone; it refuses a file that holds something else.
func (db *database) makeSchema() (err error) {
	admin, err := db.admin()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.Close()) }()

	tables, err := admin.ListTables("")
	switch {
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case slices.Contains(tables, "executions_visibility"): // the schema's last
		return dropIndexes(admin)
	case len(tables) > 0:
		return errors.New("holds tables that are not Temporal's: choose another --db")
	}
	if err := admin.Exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := errors.Join(sqliteschema.SetupSchemaOnDB(admin), dropIndexes(admin)); err != nil {
		return errors.Join(err, admin.Exec("ROLLBACK"))
	}
	if err := admin.Exec("COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// unusedIndexes are those of Temporal's visibility table that no question about devices needs. Each write of a device's
// attributes would rewrite all of them: they were two thirds of it. A query by such a column reads more rows.
var unusedIndexes = []string{
	"execution_time", "history_length", "history_size_bytes", "execution_duration", "state_transition_count", "task_queue",
	"parent_workflow_id", "parent_run_id", "root_workflow_id", "root_run_id", "batcher_user",
	"temporal_scheduled_start_time", "temporal_scheduled_by_id", "temporal_schedule_paused", "temporal_pause_info",
	"temporal_workflow_versioning_behavior", "double_01", "double_02", "double_03", "int_01", "int_02", "int_03",
	"temporal_bool_01", "temporal_bool_02", "temporal_datetime_01", "temporal_datetime_02", "temporal_double_01",
	"temporal_double_02", "temporal_int_01", "temporal_int_02", "temporal_keyword_01", "temporal_keyword_02",
	"temporal_keyword_03", "temporal_keyword_04", "temporal_low_cardinality_keyword_01",
}

func dropIndexes(admin sqlplugin.AdminDB) error {
	for _, name := range unusedIndexes {
		if err := admin.Exec("DROP INDEX IF EXISTS by_" + name); err != nil {
			return fmt.Errorf("drop the index by_%s: %w", name, err)
		}
	}
	return nil
}

// checkpoint moves what is in the write-ahead log into the file, so that after
// a stop in order the file alone is the whole state. Nothing may use the
// database any more.
func (db *database) checkpoint() (err error) {
	if db.path == "" {
		return nil
	}
	admin, err := db.admin()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	if err := admin.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return fmt.Errorf("write the log of database %s into it: %w", db.path, err)
	}
	return nil
}

// admin is the one connection, for statements of our own.
func (db *database) admin() (sqlplugin.AdminDB, error) {
	admin, err := persistencesql.NewSQLAdminDB(sqlplugin.DbKindUnknown, db.sqlConfig(), resolver.NewNoopResolver(),
		log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return admin, nil
}

// unlock lets another server have the file. The lock file stays: removing it
// would let two servers hold two files of one name.
func (db *database) unlock() error {
	if db.lock == nil {
		return nil
	}
	return db.lock.Close()
}
