package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/yamlfile"
)

// TokenFile is the file of BURNISH_API_TOKENS:
//
//	tokens:
//	- {user: alice, roles: [admin], project: ops, token: "…"}
//	- {user: grafana, roles: reader, sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae}
//
// or such a list alone. user, roles (a list, or names separated by commas) and one of token
// and sha256 are required. It and its directory have root or the worker's user as their owner,
// and only that owner may read it.
//
// It is read for each request. While it is not valid, none of its users is let in: the
// change may have taken a token away, which an older content would still accept.
type TokenFile struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	tokens []fileToken
	err    error
	digest [sha256.Size]byte // of the content that was parsed
}

type fileToken struct {
	hash hashed
	who  Principal
	line int
}

var userForm = regexp.MustCompile(`^[\pL\pN\pP\pS]([\pL\pN\pP\pS ]{0,253}[\pL\pN\pP\pS])?$`)

// OpenTokens reads the file. The error is one line, and never has a token.
func OpenTokens(path string, log *slog.Logger) (*TokenFile, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &TokenFile{path: absolute, log: log}
	f.refresh()
	if f.err == nil && len(f.tokens) == 0 {
		f.err = fmt.Errorf("%s has no token", path)
	}
	return f, f.err
}

// find gives the principal of a token; ok is false where the file does not have it. The
// fault says that the file cannot be used.
func (f *TokenFile) find(token string) (who Principal, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh()
	if f.err != nil {
		return Principal{}, false, unavailable("the tokens of this API cannot be read at present")
	}
	hash := hashed(sha256.Sum256([]byte(token)))
	for _, t := range f.tokens { // all of them, so that the time is the same for every token
		if subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1 {
			who, ok = t.who, true
		}
	}
	return who, ok, nil
}

// unavailable is the fault of a request whose token cannot be checked.
func unavailable(message string) *device.Fault {
	return &device.Fault{Class: device.Transient, Code: device.CodeAuthenticationUnavailable, Message: message,
		Remedy: "send it again; the log of the control worker says why"}
}

// refresh reads the file, parses it if it has changed, and logs the first of the same errors.
func (f *TokenFile) refresh() {
	before := f.err
	text, err := host.ReadPrivate(f.path)
	if digest := sha256.Sum256(text); err == nil && (f.err != nil || digest != f.digest) {
		f.digest = digest
		f.tokens, err = parseTokens(f.path, text)
	}
	f.err = err
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		f.log.Error("the tokens of the API cannot be read: requests are refused until they can", "error", err)
	case err == nil && before != nil:
		f.log.Info("the tokens of the API can be read again", "file", f.path)
	}
}

// parseTokens reads the file. Its error names lines and keys, and never a value.
func parseTokens(name string, text []byte) ([]fileToken, error) {
	var tokens []fileToken
	err := host.ParseSecrets(name, text, func(r *host.SecretsReader, root yamlfile.Node) {
		list := root
		if !root.IsList() {
			list = yamlfile.Node{}
			for key, value := range r.Mapping(root, "the file") {
				if key != "tokens" { // not quoted: it may be a token in the wrong place
					r.Problem(value, "unknown key: the only key is tokens")
					continue
				}
				list = value
			}
		}
		if list.Nothing() {
			r.Problem(root, "there are no tokens; an empty list is written []")
			return
		}
		for _, item := range r.List(list, "tokens") {
			tokens = append(tokens, readToken(r, item))
		}
		lines := make(map[hashed]int)
		for _, t := range tokens {
			if before := lines[t.hash]; before > 0 {
				r.ProblemAt(t.line, "it has the token of line %d", before)
			}
			lines[t.hash] = t.line
		}
	})
	return tokens, err
}

func readToken(r *host.SecretsReader, node yamlfile.Node) fileToken {
	t := fileToken{line: node.Line()}
	given := make(map[string]bool)
	for key, value := range r.Mapping(node, "an entry of tokens") {
		given[key] = true
		switch key {
		case "user":
			t.who.Name = r.Scalar(value, key)
			if !userForm.MatchString(t.who.Name) {
				r.Problem(value, "user must be 1 to 255 printable characters, without spaces at its ends")
			}
			t.who.ID = "token:" + t.who.Name
		case "project":
			t.who.Project = r.Scalar(value, key)
		case "roles":
			t.who.Roles = readRoles(r, value)
		case "token":
			token := r.Scalar(value, key)
			if !validToken(token) {
				r.Problem(value, "token must be 1 to %d printable characters without spaces", largestToken)
			}
			t.hash = sha256.Sum256([]byte(token))
		case "sha256":
			hash, err := hex.DecodeString(r.Scalar(value, key))
			if err != nil || len(hash) != sha256.Size {
				r.Problem(value, "sha256 must be 64 hexadecimal digits")
				continue
			}
			t.hash = hashed(hash)
		default:
			// The key is not quoted: it may be a token in the wrong place.
			r.Problem(value, "unknown key in an entry of tokens: must be one of user, roles, project, token, sha256")
		}
	}
	for _, key := range []string{"user", "roles"} {
		if !given[key] {
			r.ProblemAt(t.line, "an entry of tokens has no %s", key)
		}
	}
	if given["token"] == given["sha256"] {
		r.ProblemAt(t.line, "an entry of tokens must have one of token and sha256")
	}
	return t
}

// readRoles reads a list of roles, or names separated by commas.
func readRoles(r *host.SecretsReader, node yamlfile.Node) []string {
	var names []string
	if node.IsList() {
		for _, item := range r.List(node, "roles") {
			names = append(names, r.Scalar(item, "an entry of roles"))
		}
	} else {
		names = strings.Split(r.Scalar(node, "roles"), ",")
	}
	if len(names) == 0 {
		r.Problem(node, "roles are empty")
	}
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if !roleForm.MatchString(names[i]) {
			r.Problem(node, "roles: the name of a role has letters, digits, dots, dashes and underscores")
		}
	}
	return names
}
