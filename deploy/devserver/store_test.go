package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	persistencesql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/resolver"
)

// openStore is a new database with Temporal's schema, opened as the server does.
func openStore(t *testing.T, unsafeFast bool) *store {
	t.Helper()
	// The name has every character that a URI would read otherwise.
	db, err := openDatabase(filepath.Join(t.TempDir(), "a b%41?#.db"), unsafeFast)
	require.NoError(t, err)
	require.NoError(t, db.makeSchema())
	open, err := persistencesql.NewSQLDB(sqlplugin.DbKindMain, db.defaultStore(), resolver.NewNoopResolver(),
		log.NewNoopLogger(), metrics.NoopMetricsHandler)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(open.Close(), db.unlock())) })
	return open.(*store)
}

// TestACommitWaitsForTheDisk takes what a power loss would leave: the log as long as it was when it was last synced.
//
// F10
func TestACommitWaitsForTheDisk(t *testing.T) {
	db := openStore(t, false)
	var mu sync.Mutex
	var durable int64 // how long the log was when its last sync began
	db.wal.fdatasync = func(fd int) error {
		var is syscall.Stat_t
		require.NoError(t, syscall.Fstat(fd, &is))
		mu.Lock()
		defer mu.Unlock()
		durable = max(durable, is.Size)
		return syscall.Fdatasync(fd)
	}
	inLog := func() int64 {
		info, err := os.Stat(db.wal.path)
		require.NoError(t, err)
		return info.Size()
	}
	node := sqlplugin.HistoryNodeRow{ShardID: 1, TreeID: make([]byte, 16), BranchID: make([]byte, 16),
		Data: make([]byte, 20_000), DataEncoding: "Proto3"}

	_, err := db.InsertIntoHistoryNode(t.Context(), &node)
	require.NoError(t, err)
	written := inLog()
	require.Zero(t, durable, "history waits for the transaction that follows it")
	tx, err := db.BeginTx(t.Context())
	require.NoError(t, err)
	node.NodeID++
	_, err = tx.InsertIntoHistoryNode(t.Context(), &node)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Greater(t, inLog(), written)
	require.Equal(t, inLog(), durable, "what was written before the transaction, and it itself")

	// Of many at once each is on the disk when its own Commit returns.
	var group sync.WaitGroup
	for i := range int64(50) {
		group.Go(func() {
			tx, err := db.BeginTx(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			row := node
			row.NodeID += i + 1
			_, err = tx.InsertIntoHistoryNode(t.Context(), &row)
			if err = errors.Join(err, tx.(durableTx).Tx.Commit()); err != nil {
				t.Error(err)
				return
			}
			written := inLog() // of this transaction at least
			if err := tx.(durableTx).wal.sync(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if durable < written {
				t.Errorf("%d bytes are on the disk, not %d", durable, written)
			}
		})
	}
	group.Wait()
}

// After a failed sync nothing is confirmed: the server ends.
//
// F10
func TestAFailedSyncEndsTheServer(t *testing.T) {
	db := openStore(t, false)
	var fatal error
	db.wal.fatal = func(err error) { fatal = err }
	db.wal.fdatasync = func(int) error { return syscall.EIO }
	tx, err := db.BeginTx(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, tx.Commit(), syscall.EIO)
	require.ErrorIs(t, fatal, syscall.EIO)
}

func TestUnsafeFastWaitsForNothing(t *testing.T) {
	require.Nil(t, openStore(t, true).wal)
}
