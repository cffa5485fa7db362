package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"syscall"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/common/metrics"
	persistencesql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
)

// storePlugin is Temporal's for SQLite, but that it waits for the disk where somebody is answered (see wal), and finds
// the timers which are due by their time.
const storePlugin = "burnish-sqlite"

func init() { persistencesql.RegisterPlugin(storePlugin, plugin{}) }

type plugin struct{}

// GetVisibilityQueryConverter is not called: the visibility store is Temporal's own.
func (plugin) GetVisibilityQueryConverter() sqlplugin.VisibilityQueryConverter { return nil }

func (plugin) CreateDB(kind sqlplugin.DbKind, cfg *config.SQL, r resolver.ServiceResolver, logger log.Logger,
	handler metrics.Handler) (sqlplugin.GenericDB, error) {
	own := *cfg
	own.PluginName = sqliteplugin.PluginName
	db, err := persistencesql.NewSQLDB(kind, &own, r, logger, handler)
	if err != nil {
		return nil, err
	}
	// A connection of its own, because Temporal's is not to be had. It only reads, which waits for no write.
	reader, err := sql.Open("sqlite", fmt.Sprintf(
		"file:%s?mode=rw&_pragma=query_only=1&_pragma=busy_timeout=5000&_time_format=sqlite", cfg.DatabaseName))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	reader.SetMaxOpenConns(1)
	made := &store{sqliteDB: db.(sqliteDB), reader: reader}
	if cfg.ConnectAttributes["synchronous"] == strconv.Itoa(synchronousOff) {
		return made, nil
	}
	path, err := url.PathUnescape(cfg.DatabaseName)
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	made.wal = &wal{path: path + "-wal", fdatasync: syscall.Fdatasync, fatal: func(err error) {
		logger.Fatal("the database cannot be written to its disk", tag.Error(err))
	}}
	return made, nil
}

// sqliteDB is what Temporal's plugin makes: one value for both.
type sqliteDB interface {
	sqlplugin.DB
	sqlplugin.AdminDB
}

// store is Temporal's database with what this server does in its own way.
type store struct {
	sqliteDB
	reader *sql.DB
	wal    *wal // nil: nothing waits for the disk
}

// BeginTx starts a transaction that is on the disk once its Commit has returned nil.
func (db *store) BeginTx(ctx context.Context) (sqlplugin.Tx, error) {
	tx, err := db.sqliteDB.BeginTx(ctx)
	if err != nil || db.wal == nil {
		return tx, err
	}
	return durableTx{tx, db.wal}, nil
}

type durableTx struct {
	sqlplugin.Tx
	wal *wal
}

func (tx durableTx) Commit() error {
	if err := tx.Tx.Commit(); err != nil {
		return err
	}
	return tx.wal.sync()
}

// Close ends both connections.
func (db *store) Close() error { return errors.Join(db.reader.Close(), db.sqliteDB.Close()) }
