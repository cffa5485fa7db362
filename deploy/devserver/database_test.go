package main

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/dynamicconfig"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// TestSynchronousIsWhatSQLiteUses asks SQLite itself: a pragma that is
// misspelled is ignored without an error.
func TestSynchronousIsWhatSQLiteUses(t *testing.T) {
	for name, unsafeFast := range map[string]bool{"safe": false, "unsafe-fast": true} {
		t.Run(name, func(t *testing.T) {
			// The name has every character that a URI would read otherwise.
			db, err := openDatabase(filepath.Join(t.TempDir(), "a b%41?#.db"), unsafeFast)
			require.NoError(t, err)
			require.NoError(t, db.makeSchema())
			require.NoError(t, db.makeSchema(), "again on a database that has it")
			require.FileExists(t, db.path+"-wal")
			admin, err := db.admin()
			require.NoError(t, err)

			want := map[bool]int{false: synchronousNormal, true: synchronousOff}[unsafeFast]
			require.NoError(t, admin.Exec("CREATE TEMP TABLE sync_is (v CHECK (v = "+strconv.Itoa(want)+"))"))
			require.NoError(t, admin.Exec("INSERT INTO sync_is SELECT synchronous FROM pragma_synchronous"))
			require.NoError(t, admin.Exec("CREATE TEMP TABLE journal_is (v CHECK (v = 'wal'))"))
			require.NoError(t, admin.Exec("INSERT INTO journal_is SELECT journal_mode FROM pragma_journal_mode"))

			require.NoError(t, db.checkpoint())
			require.NoError(t, db.unlock())
		})
	}
}

// TestUnusedIndexesAreGone takes each name from Temporal's own schema: one that is misspelled there would be ignored.
func TestUnusedIndexesAreGone(t *testing.T) {
	db, err := openDatabase(filepath.Join(t.TempDir(), "old.db"), false)
	require.NoError(t, err)
	admin, err := db.admin()
	require.NoError(t, err)
	require.NoError(t, sqliteschema.SetupSchemaOnDB(admin))
	exists := func(name string) bool { return admin.Exec("REINDEX by_"+name) == nil }
	for _, name := range append([]string{"status", "keyword_10"}, unusedIndexes...) {
		require.True(t, exists(name), name)
	}
	require.NoError(t, db.makeSchema(), "on the database of an older release")
	for _, name := range unusedIndexes {
		require.False(t, exists(name), name)
	}
	require.True(t, exists("status"))
	require.True(t, exists("keyword_10"))
	require.NoError(t, db.unlock())
}

func TestDatabaseHasOneConnection(t *testing.T) {
	require.Equal(t, 1, (&database{}).sqlConfig().MaxConns)
	require.Equal(t, 1, (&database{path: "/x.db"}).sqlConfig().MaxConns)
}

func TestForeignDatabaseIsRefused(t *testing.T) {
	db, err := openDatabase(filepath.Join(t.TempDir(), "other.db"), false)
	require.NoError(t, err)
	admin, err := db.admin()
	require.NoError(t, err)
	require.NoError(t, admin.Exec("CREATE TABLE pictures (id INT)"))
	require.ErrorContains(t, db.makeSchema(), "not Temporal's")
	require.NoError(t, db.unlock())
}

func TestHalfMadeSchemaLeavesNothing(t *testing.T) {
	db, err := openDatabase(filepath.Join(t.TempDir(), "half.db"), false)
	require.NoError(t, err)
	admin, err := db.admin()
	require.NoError(t, err)
	// A view in the place of a late table makes the schema fail in its middle.
	require.NoError(t, admin.Exec("CREATE VIEW executions_visibility AS SELECT 1"))
	require.Error(t, db.makeSchema())
	tables, err := admin.ListTables("")
	require.NoError(t, err)
	require.Empty(t, tables)
	require.NoError(t, admin.Exec("DROP VIEW executions_visibility"))
	require.NoError(t, db.makeSchema())
	require.NoError(t, db.unlock())
}

func TestDynamicSettings(t *testing.T) {
	settings := dynamicSettings()
	for key, want := range map[string]any{
		"history.transferProcessorMaxPollRPS":             2000,
		"history.timerProcessorMaxPollRPS":                2000,
		"history.visibilityProcessorMaxPollRPS":           500,
		"history.transferProcessorSchedulerWorkerCount":   16,
		"history.timerProcessorSchedulerWorkerCount":      8,
		"history.visibilityProcessorSchedulerWorkerCount": 4,
		"matching.numTaskqueueReadPartitions":             1,
		"matching.numTaskqueueWritePartitions":            1,
		"frontend.namespaceRPS.visibility":                100,
		"frontend.persistenceMaxQPS":                      1_000_000,
	} {
		values := settings.GetValue(dynamicconfig.MakeKey(key))
		require.Len(t, values, 1, key)
		require.Equal(t, want, values[0].Value, key)
	}
}

func TestMissingAttributes(t *testing.T) {
	missing, err := missingAttributes(nil)
	require.NoError(t, err)
	require.Equal(t, searchAttributes(), missing)

	missing, err = missingAttributes(searchAttributes())
	require.NoError(t, err)
	require.Empty(t, missing)

	_, err = missingAttributes(map[string]enumspb.IndexedValueType{"DeviceState": enumspb.INDEXED_VALUE_TYPE_TEXT})
	require.ErrorContains(t, err, "DeviceState is of type Text")
}
