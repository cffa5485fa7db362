// Package recent keeps answers of a server for some seconds on disk, for programs that ask
// again and again from one shell: completion. What it cannot read or write, it does without.
package recent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/atomicfile"
)

const (
	fresh  = 5 * time.Second  // an answer, or a failure, counts this long
	usable = 10 * time.Minute // an old answer is better than none
)

// Cache is the folder of the answers. Each server and user has files of its own.
type Cache struct {
	Dir string // "": nothing is kept
	Now func() time.Time
}

// kept is one answer in its file.
type kept struct {
	Answered time.Time       `json:"answered"`
	Failed   time.Time       `json:"failed"`
	Answer   json.RawMessage `json:"answer"`
}

// Get gives the answer to the question that key names: the one on disk while it is fresh, else
// that of ask. Where ask fails, an older answer is given, and the server is left alone for some
// seconds. Without any it gives the zero value.
func Get[T any](c Cache, key []string, ask func() (T, error)) T {
	var (
		old  kept
		last T
		now  = c.Now()
		path = c.path(key)
	)
	if path != "" {
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &old) == nil {
			if within(old.Answered, now, usable) && json.Unmarshal(old.Answer, &last) != nil {
				old, last = kept{}, *new(T)
			}
		}
	}
	if within(old.Answered, now, fresh) || within(old.Failed, now, fresh) {
		return last
	}
	answer, err := ask()
	if err != nil {
		old.Failed = now
		c.store(path, old)
		return last
	}
	if data, err := json.Marshal(answer); err == nil {
		c.store(path, kept{Answered: now, Answer: data})
	}
	return answer
}

// within says whether at is in the last d before now. A time to come is not.
func within(at, now time.Time, d time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age < d
}

// path is the file of a key. Its name tells nothing of the key, which may hold a token.
func (c Cache) path(key []string) string {
	if c.Dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return filepath.Join(c.Dir, hex.EncodeToString(sum[:16])+".json")
}

// store writes one answer; a disk that takes none costs the next question, and no more.
func (c Cache) store(path string, k kept) {
	if path == "" || os.MkdirAll(c.Dir, 0o700) != nil {
		return
	}
	if data, err := json.Marshal(k); err == nil {
		_ = atomicfile.Write(path, data)
	}
}
