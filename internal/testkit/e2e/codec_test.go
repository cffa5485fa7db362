package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/testkit/cluster"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// newKey is a line of a file of keys.
func newKey(id string) string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // which never fails
	return id + " " + base64.StdEncoding.EncodeToString(random) + "\n"
}

// stored is every byte of the server's database: its files, and what a cluster's gives out, where columns may be
// compressed in the files.
func stored(t *testing.T, s *Site) (all [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Server.Dir, "temporal.db*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		require.NoError(t, filepath.WalkDir(file, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.Type().IsRegular() {
				return nil
			}
			text, err := os.ReadFile(path)
			if all = append(all, text); errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
				return nil
			}
			return err
		}))
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			dump, err := cluster.Dump(file)
			require.NoError(t, err)
			all = append(all, dump)
		}
	}
	return all
}

// kept says which of some words the server's database has.
func kept(t *testing.T, s *Site, words ...string) (found []string) {
	t.Helper()
	all := stored(t, s)
	for _, word := range words {
		if slices.ContainsFunc(all, func(text []byte) bool {
			return bytes.Contains(text, []byte(word)) || bytes.Contains(text, []byte(hex.EncodeToString([]byte(word))))
		}) {
			found = append(found, word)
		}
	}
	return found
}

// What is said about a device is encrypted in everything that Temporal keeps. Who has the key reads it, also after the
// keys have changed; a worker or command without it reads nothing, and carries nothing out. A client without it may
// still send a device to be cleaned.
func TestWhatTemporalKeepsIsEncrypted(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	clear := siteOn(t, s.Server) // another namespace of the same server, whose devices are not encrypted
	keys, old := filepath.Join(s.Dir, "codec.keys"), newKey("old")
	require.NoError(t, os.WriteFile(keys, []byte(old), 0o600))
	s.Env = append(s.Env, config.VarCodecKeys+"="+keys)

	said := map[*Site][]string{s: {"reason-of-keys", "label-of-keys", "tag-of-keys", "request-of-keys", "path-of-keys"},
		clear: {"reason-in-clear", "label-in-clear", "tag-in-clear", "request-in-clear", "path-in-clear"}}
	for at, words := range said {
		at.Run(t, "all")
		at.Enroll(t, at.Device(t, "fake", "d1", MiB, 0))
		at.Must(t, "provide", "d1", "--wait", "--timeout", "60s")
		at.Must(t, "label", "d1", "note="+words[1])
		at.Must(t, "maintain", "d1", "--reason", words[0])
		at.Must(t, "maintain", "d1", "--off")
		at.Must(t, "bind", "d1", "--instance", Instance("alice"), "--tag", words[2], "--request", words[3])
		at.Unbind(t, "d1", "alice")
		at.AwaitDevice(t, "d1", 30*time.Second, "to be available", isAvailable)
		at.Refused(t, device.CodeTargetMissing, "enroll", "d2", "--host", at.Host, "--driver", "block",
			"--set", "path=/nowhere/"+words[4])
		require.Contains(t, at.Must(t, "show", "d1"), words[1])
		require.Contains(t, at.Must(t, "list", "-o", "json"), words[1])
		require.Contains(t, at.Must(t, "history", "d1"), words[0])
	}
	require.Empty(t, kept(t, s, said[s]...))
	require.Equal(t, said[clear], kept(t, s, said[clear]...), "what is not encrypted is found")

	// The keys are changed while the workers run.
	require.NoError(t, os.WriteFile(keys+".new", []byte(newKey("new")+old), 0o600))
	require.NoError(t, os.Rename(keys+".new", keys))
	s.Bind(t, "d1", "bob")
	s.Unbind(t, "d1", "bob")
	s.AwaitDevice(t, "d1", 30*time.Second, "to be available", isAvailable)
	require.Contains(t, s.Must(t, "show", "d1"), "label-of-keys")

	// Who has no key may send a signal, and the device understands it.
	c, err := s.Server.Dial(s.Namespace)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SignalWorkflow(t.Context(), contract.WorkflowID("d1"), "", contract.SignalClean,
		map[string]string{"reason": "by hand"}))
	s.AwaitDevice(t, "d1", 30*time.Second, "to refuse it", func(v contract.DeviceStatus) bool {
		return strings.HasPrefix(v.LastRefusal, "the clean signal was refused: cannot clean a device in state available")
	})

	// Without the key nothing is read, and nothing is done.
	away := s.Worker(t, "host", config.VarCodecKeys+"=")
	away.Host, away.StateDir = site.NewHost(), filepath.Join(s.Dir, "away")
	away.Start(t)
	f := s.File("d3", MiB)
	f.Stamp(t, 1)
	r := s.Burnish(t, "enroll", "d3", "--host", away.Host, "--driver", "block", "--set", "path="+f.Path, "--provide",
		"--label", "word=of-keys", "--timeout", "10s")
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Stderr, "encoding binary/encrypted")
	require.NotContains(t, away.Log(), "of-keys")
	f.RequireStamps(t, 1)
	s.Env = nil
	eve := []string{"bind", "d1", "--instance", Instance("eve")}
	for _, args := range [][]string{{"show", "d1"}, {"history", "d1"}, {"list"}, eve} {
		r := s.Burnish(t, append(args, "-o", "json", "--timeout", "10s")...)
		require.Equal(t, 5, r.Code, r)
		require.Contains(t, r.Stdout+r.Stderr, "set BURNISH_CODEC_KEYS")
		require.Equal(t, args[0] == "bind", strings.Contains(r.Stdout+r.Stderr, "may still be carried out"), r)
		require.NotContains(t, r.Stdout+r.Stderr, "of-keys")
	}
}
