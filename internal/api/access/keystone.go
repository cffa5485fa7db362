package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"burnish/internal/keystone"
)

const (
	// cacheTime is how long an answer of Keystone counts: a revoked token is refused that much
	// later at the latest.
	cacheTime = 10 * time.Second
	// cacheSize bounds the answers that are kept.
	cacheSize = 10_000
	// keystoneTimeout bounds one question.
	keystoneTimeout = 5 * time.Second
	// keystoneSlots is how many questions are asked at once.
	keystoneSlots = 16
	// keystonePause is how long Keystone is not asked after it has not answered.
	keystonePause = time.Second
)

// Owners says whose a token is; *keystone.Validator does.
type Owners interface {
	Owner(ctx context.Context, token string) (keystone.Owner, error)
}

// Keystone authenticates by tokens of Keystone.
type Keystone struct {
	owners Owners
	log    *slog.Logger
	now    func() time.Time
	slots  chan struct{}
	asking singleflight.Group

	mu        sync.Mutex
	answers   map[hashed]answer
	down      bool
	notBefore time.Time
}

// answer is what Keystone has said of a token: whose it is, or that it is not valid.
type answer struct {
	who   Principal
	err   error
	until time.Time
}

// NewKeystone does not connect yet.
func NewKeystone(owners Owners, log *slog.Logger) *Keystone {
	return &Keystone{owners: owners, log: log, now: time.Now, slots: make(chan struct{}, keystoneSlots),
		answers: make(map[hashed]answer)}
}

// cached gives the principal of a token: known is false where Keystone must be asked first.
func (k *Keystone) cached(token string) (who Principal, known bool, err error) {
	hash := hashed(sha256.Sum256([]byte(token)))
	k.mu.Lock()
	defer k.mu.Unlock()
	a, ok := k.answers[hash]
	if !ok || !k.now().Before(a.until) {
		return Principal{}, false, nil
	}
	return a.who, true, a.err
}

var errUnknownToken = notAuthenticated("the token is not valid")

// find gives the principal of a token, by the last answer or by a new one.
func (k *Keystone) find(ctx context.Context, token string) (Principal, error) {
	if who, known, err := k.cached(token); known {
		return who, err
	}
	hash := hashed(sha256.Sum256([]byte(token)))
	// Several requests with one token wait for one answer, which the end of one of them must
	// not interrupt.
	result := k.asking.DoChan(string(hash[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keystoneTimeout)
		defer cancel()
		return k.ask(ctx, hash, token)
	})
	select {
	case r := <-result:
		who, _ := r.Val.(Principal)
		return who, r.Err
	case <-ctx.Done():
		return Principal{}, unavailable("Keystone has not answered in time")
	}
}

// ask asks Keystone, and keeps its answer.
func (k *Keystone) ask(ctx context.Context, hash hashed, token string) (Principal, error) {
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		return Principal{}, unavailable("Keystone has not answered in time")
	}
	if k.pausing() {
		return Principal{}, unavailable("Keystone does not answer")
	}
	asked := k.now() // what changes from here on may not be in the answer
	owner, err := k.owners.Owner(ctx, token)
	k.mu.Lock()
	defer k.mu.Unlock()
	a := answer{until: asked.Add(cacheTime)}
	switch {
	case errors.Is(err, keystone.ErrNoToken):
		a.err = errUnknownToken
	case err != nil:
		if !k.down {
			k.log.Warn("Keystone cannot be asked about tokens: requests are refused until it can", "error", err)
		}
		k.down, k.notBefore = true, k.now().Add(keystonePause)
		return Principal{}, unavailable("Keystone does not answer")
	default:
		a.who = Principal{ID: "keystone:" + owner.UserID, Name: owner.UserName, Project: owner.ProjectID, Roles: owner.Roles}
		if owner.ExpiresAt.Before(a.until) {
			a.until = owner.ExpiresAt
		}
	}
	if k.down {
		k.log.Info("Keystone can be asked about tokens again")
	}
	k.down = false
	keep(k.answers, hash, a, asked)
	return a.who, a.err
}

func (k *Keystone) pausing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now().Before(k.notBefore)
}

// keep keeps an answer. A full table first loses what has ended, then a tenth of the rest.
func keep(in map[hashed]answer, hash hashed, a answer, now time.Time) {
	if _, has := in[hash]; !has && len(in) >= cacheSize {
		for other, old := range in {
			if !now.Before(old.until) {
				delete(in, other)
			}
		}
		for other := range in {
			if len(in) < cacheSize*9/10 {
				break
			}
			delete(in, other)
		}
	}
	in[hash] = a
}
