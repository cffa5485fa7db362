package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
)

// TestTimersAreThoseOfTemporal asks Temporal's own plugin the same.
func TestTimersAreThoseOfTemporal(t *testing.T) {
	ours := openStore(t, false)
	second := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	var times []time.Time
	for _, after := range []time.Duration{0, time.Microsecond, 1500 * time.Microsecond, time.Second} {
		times = append(times, second.Add(after))
	}
	var rows []sqlplugin.TimerTasksRow
	for _, at := range append([]time.Time{{}}, times...) {
		for task := range int64(3) {
			rows = append(rows, sqlplugin.TimerTasksRow{ShardID: 1, VisibilityTimestamp: at, TaskID: 7 + task,
				Data: fmt.Append(nil, at, task), DataEncoding: "Proto3"})
		}
	}
	rows = append(rows, sqlplugin.TimerTasksRow{ShardID: 2, VisibilityTimestamp: second, TaskID: 1, DataEncoding: "Proto3",
		Data: []byte("another shard's")})
	_, err := ours.InsertIntoTimerTasks(t.Context(), rows)
	require.NoError(t, err)

	seen := 0
	bounds := slices.Concat(times,
		[]time.Time{{}, second.Add(-time.Hour), second.Add(500 * time.Nanosecond), second.Add(time.Hour)})
	for _, from := range bounds {
		for _, until := range bounds {
			for _, task := range []int64{-1 << 63, 7, 8, 99} {
				for _, page := range []int{1, 4, 100} {
					in := sqlplugin.TimerTasksRangeFilter{ShardID: 1, InclusiveMinTaskID: task, PageSize: page,
						InclusiveMinVisibilityTimestamp: from, ExclusiveMaxVisibilityTimestamp: until}
					want, err := ours.sqliteDB.RangeSelectFromTimerTasks(t.Context(), in)
					require.NoError(t, err)
					got, err := ours.RangeSelectFromTimerTasks(t.Context(), in)
					require.NoError(t, err)
					require.Len(t, got, len(want), "%+v", in)
					for i := range want {
						require.Equal(t, [3]any{want[i].VisibilityTimestamp, want[i].TaskID, string(want[i].Data)},
							[3]any{got[i].VisibilityTimestamp, got[i].TaskID, string(got[i].Data)}, "%+v", in)
					}
					seen += len(got)
				}
			}
		}
	}
	require.Greater(t, seen, 100)
}

// TestTimersAreFoundByTheirTime asks SQLite whether it begins at the lower bound.
func TestTimersAreFoundByTheirTime(t *testing.T) {
	db, err := openDatabase(filepath.Join(t.TempDir(), "x.db"), false)
	require.NoError(t, err)
	require.NoError(t, db.makeSchema())
	at, err := sql.Open("sqlite", db.path)
	require.NoError(t, err)
	var plan string
	require.NoError(t, at.QueryRow("EXPLAIN QUERY PLAN "+selectTimers, 1, "", 0, "", 1).
		Scan(new(int), new(int), new(int), &plan))
	require.Contains(t, plan, "(visibility_timestamp,task_id)>(?,?)")
	require.NoError(t, at.Close())
	require.NoError(t, db.unlock())
}
