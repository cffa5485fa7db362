package redfish

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
)

// openSession is what is kept on disk of a session: never its token.
type openSession struct {
	URI     string `json:"uri,omitempty"`
	User    string `json:"user,omitempty"`
	Created string `json:"created,omitempty"`
	// Context is that of the session, where the BMC keeps it.
	Context string `json:"context,omitempty"`
}

// loginIntent is a login of which no answer was recorded.
type loginIntent struct {
	User string `json:"user"`
	// Context is given to the session. No other login has it.
	Context string `json:"context,omitempty"`
	// Sent is when, by the BMC's clock; zero: unknown. Began is when, by the host's.
	Sent  time.Time `json:"sent,omitzero"`
	Began time.Time `json:"began"`
}

// sessionsFile is what is kept of the sessions on one BMC while there may be any of ours.
type sessionsFile struct {
	openSession
	// Left are those of crashes, which could not be deleted yet. Pending are the logins that
	// may have left one.
	Left    []openSession `json:"left,omitempty"`
	Pending []loginIntent `json:"pending,omitempty"`
}

// mostPending bounds the logins that are kept: a session that is not found by then ends by the
// BMC's own time-out.
const mostPending = 32

// sessionsPath is where it is kept.
func (b *bmc) sessionsPath() string {
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(b.key())))
	return filepath.Join(b.driver.host.StateDir, "redfish", name)
}

func (b *bmc) saveSessions(f sessionsFile) error {
	if f.URI == "" && len(f.Left) == 0 && len(f.Pending) == 0 {
		if err := atomicfile.Remove(b.sessionsPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return stateDirError(err)
		}
		return nil
	}
	f.Pending = f.Pending[max(0, len(f.Pending)-mostPending):]
	text, err := json.Marshal(f)
	if err == nil {
		if err = os.MkdirAll(filepath.Dir(b.sessionsPath()), 0o700); err == nil {
			err = atomicfile.Write(b.sessionsPath(), text)
		}
	}
	if err != nil {
		return stateDirError(err)
	}
	return nil
}

func (b *bmc) loadSessions() (f sessionsFile, err error) {
	text, err := os.ReadFile(b.sessionsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return sessionsFile{}, nil
	}
	if err != nil {
		return sessionsFile{}, stateDirError(err)
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return sessionsFile{}, stateDirError(fmt.Errorf("%s: %w", b.sessionsPath(), err))
	}
	return f, nil
}

// forgetSession drops the session of the file, which has ended.
func (b *bmc) forgetSession() error {
	b.session = ""
	f, err := b.loadSessions()
	if err != nil {
		return err
	}
	f.openSession = openSession{}
	return b.saveSessions(f)
}

func stateDirError(err error) error {
	return &device.Fault{Class: device.Transient, Code: device.CodeStateDirError, Message: "record the session: " +
		err.Error(), Remedy: "see the worker's state directory"}
}

// sessionResource is what the driver reads of a Session, of whatever vendor.
type sessionResource struct {
	ID          link `json:"@odata.id"`
	UserName    string
	CreatedTime string
	Origin      string `json:"ClientOriginIPAddress"`
	Context     string
	Oem         struct {
		Hpe struct{ LoginTime, UserIP string }
	} `bmc:"object"`
}

func (s *sessionResource) created() string {
	if s.CreatedTime != "" {
		return s.CreatedTime
	}
	return s.Oem.Hpe.LoginTime
}

// origin is the address of the client that has logged in, as the BMC saw it.
func (s *sessionResource) origin() netip.Addr {
	text := s.Origin
	if text == "" {
		text = s.Oem.Hpe.UserIP
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{} // it does not say
	}
	return plain(address)
}

// plain is an address as it compares: some BMCs write IPv4 as IPv6.
func plain(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }

// settleSessions deletes the sessions of crashes, and those of logins without an answer, as far
// as it is proved whose they are. What is not settled stays in the file.
func (b *bmc) settleSessions(ctx context.Context, f sessionsFile, header http.Header) error {
	if len(f.Left) == 0 && len(f.Pending) == 0 {
		return nil
	}
	f.Left = slices.DeleteFunc(slices.Clone(f.Left), func(left openSession) bool {
		return b.deleteOrphan(ctx, left, header)
	})
	if len(f.Pending) > 0 {
		f.Pending = b.settleLogins(ctx, f, header)
	}
	return b.saveSessions(f)
}

// deleteOrphan deletes the session of a worker that crashed, and reports whether that is settled. A
// BMC that has restarted may have given its number to another's session, which is left alone.
func (b *bmc) deleteOrphan(ctx context.Context, left openSession, header http.Header) bool {
	got, err := b.send(ctx, request{Method: http.MethodGet, Path: left.URI, Timeout: b.timing.login}, header)
	if err != nil {
		return hasStatus(err, http.StatusNotFound)
	}
	var now sessionResource
	if got.decode(&now) != nil {
		return true // nothing says whose it is
	}
	if now.UserName != left.User || left.Created != "" && now.created() != left.Created || left.Context != "" &&
		now.Context != left.Context {
		return true
	}
	return b.deleteSession(ctx, left.URI, header, false)
}

// settleLogins deletes the sessions of logins without an answer, and returns those that are to be
// looked for again: the BMC did not show its sessions, or may still make one.
//
// Another worker may use the same user name. A session is ours if it has the context that was given
// to no other login; or, where the BMC keeps none, if it was made from this host's own address
// (which the BMC does not see through a NAT) by our user within the seconds in which the login was
// sent, and there are not more such sessions than such logins. What is not proved is left to the
// BMC's own time-out.
func (b *bmc) settleLogins(ctx context.Context, f sessionsFile, header http.Header) []loginIntent {
	open, err := b.readSessions(ctx, header)
	if err != nil {
		return f.Pending
	}
	pending := f.Pending
	settled := func(own sessionResource, i int) {
		if b.deleteSession(ctx, string(own.ID), header, false) {
			pending = slices.Delete(slices.Clone(pending), i, i+1)
		}
	}
	var without []sessionResource
	for _, one := range open {
		if one.Context == "" && !samePath(string(one.ID), f.URI) {
			without = append(without, one)
		}
		if i := slices.IndexFunc(pending, func(l loginIntent) bool {
			return l.Context != "" && l.Context == one.Context
		}); i >= 0 {
			settled(one, i)
		}
	}
	may := slices.DeleteFunc(without, func(s sessionResource) bool { return b.loginOf(s, pending) < 0 })
	if f.Context == "" && len(may) <= len(pending) {
		for _, one := range may {
			if i := b.loginOf(one, pending); i >= 0 {
				settled(one, i)
			}
		}
	}
	// A BMC that has not made the session by now does not make it any more.
	return slices.DeleteFunc(slices.Clone(pending), func(l loginIntent) bool {
		return time.Since(l.Began) > 2*b.timing.login
	})
}

// loginOf is the login that this session is of, by its user, its client's address and its time; -1:
// none that it is proved to be.
func (b *bmc) loginOf(s sessionResource, pending []loginIntent) int {
	created, err := time.Parse(time.RFC3339, s.created())
	here := b.local.Load()
	if err != nil || here == nil || s.origin() != *here {
		return -1
	}
	return slices.IndexFunc(pending, func(l loginIntent) bool {
		// The BMC's clock has whole seconds.
		return l.User == s.UserName && !l.Sent.IsZero() &&
			!created.Before(l.Sent.Add(-2*time.Second)) && !created.After(l.Sent.Add(b.timing.login+2*time.Second))
	})
}

// readSessions reads the sessions on the BMC.
func (b *bmc) readSessions(ctx context.Context, header http.Header) ([]sessionResource, error) {
	get := func(ctx context.Context, path string, into any) error {
		got, err := b.send(ctx, request{Method: http.MethodGet, Path: path, Timeout: b.timing.login}, header)
		if err != nil {
			return err
		}
		return got.decode(into)
	}
	members, err := readPages[link](ctx, b.sessions, get)
	if err != nil {
		return nil, err
	}
	var all []sessionResource
	for _, member := range members {
		var one sessionResource
		switch err := get(ctx, string(member), &one); {
		case hasStatus(err, http.StatusNotFound): // it has ended
		case err != nil:
			return nil, err
		default:
			one.ID = member
			all = append(all, one)
		}
	}
	return all, nil
}

// settleUnseen deletes what is left where the table is full and no session can be made to delete
// it: with the password itself, which most BMCs take.
func (b *bmc) settleUnseen(ctx context.Context) error {
	f, err := b.loadSessions()
	if err != nil || f.URI == "" && len(f.Left) == 0 && len(f.Pending) == 0 {
		return err
	}
	s, err := b.driver.credentials(b.secret)
	if err != nil {
		return err
	}
	if f.URI != "" {
		f.Left, f.openSession = append(f.Left, f.openSession), openSession{}
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(s.Username+":"+s.Password))
	return b.settleSessions(ctx, f, http.Header{"Authorization": {basic}})
}

// refusesContext: the BMC has refused a login for its context.
func (d *Driver) refusesContext(b *bmc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.withoutContext[b.base.Host]
}

func (d *Driver) noContext(b *bmc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.withoutContext[b.base.Host] = true
}
