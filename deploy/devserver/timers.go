package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	persistencesql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
)

// timersPlugin is Temporal's for SQLite, but that it finds the timers which are due by their time. Temporal's own
// query has no lower bound that SQLite can use, and walks all that are done and not yet deleted: with a thousand
// devices at work these are tens of thousands, and it took two fifths of the server's time (measured).
const timersPlugin = "burnish-sqlite"

func init() { persistencesql.RegisterPlugin(timersPlugin, timers{}) }

type timers struct{}

// GetVisibilityQueryConverter is not called: the visibility store is Temporal's own.
func (timers) GetVisibilityQueryConverter() sqlplugin.VisibilityQueryConverter { return nil }

func (timers) CreateDB(kind sqlplugin.DbKind, cfg *config.SQL, r resolver.ServiceResolver, logger log.Logger,
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
	return &timersDB{db.(sqliteDB), reader}, nil
}

// sqliteDB is what Temporal's plugin makes: one value for both.
type sqliteDB interface {
	sqlplugin.DB
	sqlplugin.AdminDB
}

type timersDB struct {
	sqliteDB
	reader *sql.DB
}

const selectTimers = `SELECT visibility_timestamp, task_id, data, data_encoding FROM timer_tasks
	WHERE shard_id = ? AND (visibility_timestamp, task_id) >= (?, ?) AND visibility_timestamp < ?
	ORDER BY visibility_timestamp, task_id LIMIT ?`

// RangeSelectFromTimerTasks lists timers from a time and task on, which is included, until a time, which is not.
func (db *timersDB) RangeSelectFromTimerTasks(ctx context.Context,
	from sqlplugin.TimerTasksRangeFilter) (rows []sqlplugin.TimerTasksRow, err error) {
	if from.InclusiveMinVisibilityTimestamp.IsZero() { // which the plugin writes in a way of its own
		return db.sqliteDB.RangeSelectFromTimerTasks(ctx, from)
	}
	found, err := db.reader.QueryContext(ctx, selectTimers, from.ShardID,
		written(from.InclusiveMinVisibilityTimestamp), from.InclusiveMinTaskID, written(from.ExclusiveMaxVisibilityTimestamp),
		from.PageSize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		row := sqlplugin.TimerTasksRow{ShardID: from.ShardID}
		if err := found.Scan(&row.VisibilityTimestamp, &row.TaskID, &row.Data, &row.DataEncoding); err != nil {
			return nil, err
		}
		row.VisibilityTimestamp = row.VisibilityTimestamp.UTC()
		rows = append(rows, row)
	}
	return rows, found.Err()
}

// written is a time as Temporal's plugin writes it.
func written(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Close ends both connections.
func (db *timersDB) Close() error { return errors.Join(db.reader.Close(), db.sqliteDB.Close()) }
