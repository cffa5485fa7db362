package openstack

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The user that Keystone starts with.
const (
	User     = "admin"
	Password = "secret"
	Project  = "admin"
	Region   = "RegionOne"
)

// serviceUser is the user that Placement itself logs in as.
const serviceUser = "placement"

// Keystone is a Keystone with one user in the role admin, which Placement demands.
type Keystone struct {
	*Service
	token string // of the test itself
}

const keystoneDatabase = "keystone.sqlite"

var (
	keystoneOnce  sync.Once
	keystoneFiles map[string][]byte // of a Keystone that has just been set up
)

// KeystoneOptions says what kind of Keystone a test wants.
type KeystoneOptions struct {
	// TokenLifetime is how long a token is valid; 0 is an hour.
	TokenLifetime time.Duration
}

// StartKeystone starts a Keystone with a database of its own, and ends it with the
// test. The test is skipped where Keystone is not installed.
func StartKeystone(t testing.TB, o KeystoneOptions) *Keystone {
	t.Helper()
	SkipIfMissing(t)
	if o.TokenLifetime == 0 {
		o.TokenLifetime = time.Hour
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "keystone.conf")
	k := &Keystone{Service: &Service{Dir: dir, name: "keystone", forker: keystoneForker, program: keystonePublic}}
	k.env = []string{"OS_KEYSTONE_CONFIG_DIR=" + dir, "OS_KEYSTONE_CONFIG_FILES=" + conf}
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, `[DEFAULT]
use_stderr = false
[database]
connection = sqlite:///%[1]s/%[3]s
sqlite_synchronous = false
[token]
provider = fernet
expiration = %[2]d
[fernet_tokens]
key_repository = %[1]s/fernet
[fernet_receipts]
key_repository = %[1]s/fernet
[credential]
key_repository = %[1]s/credential
[identity]
password_hash_rounds = 4
`, dir, int(o.TokenLifetime.Seconds()), keystoneDatabase), 0o600))
	keystoneOnce.Do(func() {
		k.setUp(t, conf)
		keystoneFiles = readKeystoneFiles(t, dir)
	})
	require.NotEmpty(t, keystoneFiles, "an earlier test could not set Keystone up")
	for path, text := range keystoneFiles {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), text, 0o600))
	}
	k.serveTest(t)
	k.login(t)
	k.registerService(t, "identity", k.URL+"/v3") // Placement finds Keystone by the catalog
	return k
}

// setUp creates the database and the keys, which takes most of the time of a start.
func (k *Keystone) setUp(t testing.TB, conf string) {
	t.Helper()
	manage := func(args ...string) {
		require.NoError(t,
			runPython(t.Context(), k.Dir, k.env, "", append([]string{keystoneManage, "--config-file", conf}, args...)...))
	}
	manage("db_sync")
	// Otherwise a write during a read is answered 500, "database is locked".
	require.NoError(t, runPython(t.Context(), k.Dir, nil, "", "-c",
		`import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA journal_mode=WAL")`,
		filepath.Join(k.Dir, keystoneDatabase)))
	// As fernet_setup and credential_setup do, without two programs that take seconds: the
	// key 1 signs, the key 0 is the next one.
	for _, name := range []string{"fernet/0", "fernet/1", "credential/0", "credential/1"} {
		key := make([]byte, 32)
		_, err := rand.Read(key)
		require.NoError(t, err)
		file := filepath.Join(k.Dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(base64.URLEncoding.EncodeToString(key)), 0o600))
	}
	for _, user := range []string{User, serviceUser} {
		manage("bootstrap", "--bootstrap-password", Password, "--bootstrap-username", user,
			"--bootstrap-project-name", Project,
			"--bootstrap-role-name", "admin", "--bootstrap-region-id", Region)
	}
}

// readKeystoneFiles reads the database and the keys.
func readKeystoneFiles(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{keystoneDatabase, "fernet/*", "credential/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			name, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			all[name] = text
		}
	}
	return all
}

// middleware is the part of Placement's configuration about Keystone. Each token is
// checked on each request, so that a revoked one is refused at once, or once in a while, as
// an installed Placement does.
func (k *Keystone) middleware(cached bool) string {
	seconds := -1
	if cached {
		seconds = 300
	}
	return fmt.Sprintf(`[keystone_authtoken]
www_authenticate_uri = %[1]s
auth_url = %[1]s
auth_type = password
username = %[2]s
password = %[3]s
project_name = %[4]s
user_domain_id = default
project_domain_id = default
token_cache_time = %[5]d
`, k.URL, serviceUser, Password, Project, seconds)
}

// Register puts Placement's address into the catalog.
func (k *Keystone) Register(t testing.TB, url string) {
	t.Helper()
	k.RegisterService(t, "placement", url)
}

// RegisterService enters a service's address into the catalog.
func (k *Keystone) RegisterService(t testing.TB, kind, url string) {
	t.Helper()
	k.login(t) // the token may have expired
	k.registerService(t, kind, url)
}

// registerService enters a service into the catalog.
func (k *Keystone) registerService(t testing.TB, kind, url string) {
	t.Helper()
	var service struct {
		Service struct {
			ID string `json:"id"`
		} `json:"service"`
	}
	k.post(t, "/v3/services", map[string]any{"service": map[string]any{"name": kind, "type": kind}}, &service)
	for _, face := range []string{"public", "internal"} {
		k.post(t, "/v3/endpoints", map[string]any{"endpoint": map[string]any{
			"service_id": service.Service.ID, "interface": face, "region_id": Region, "url": url,
		}}, nil)
	}
}

// ApplicationCredential creates an application credential.
func (k *Keystone) ApplicationCredential(t testing.TB, name string) (id, secret string) {
	t.Helper()
	k.login(t)
	var made struct {
		Credential struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
		} `json:"application_credential"`
	}
	k.post(t, "/v3/users/"+k.userID(t)+"/application_credentials",
		map[string]any{"application_credential": map[string]any{"name": name, "unrestricted": true}}, &made)
	return made.Credential.ID, made.Credential.Secret
}

// Revoke revokes a token. An expired one is no error.
func (k *Keystone) Revoke(t testing.TB, token string) {
	t.Helper()
	k.login(t)
	status, answer := ask(t, http.MethodDelete, k.URL+"/v3/auth/tokens",
		map[string]string{"X-Auth-Token": k.token, "X-Subject-Token": token}, nil, nil)
	require.Contains(t, []int{http.StatusNoContent, http.StatusNotFound}, status, answer)
}

// SetPassword changes the user's password.
func (k *Keystone) SetPassword(t testing.TB, password string) {
	t.Helper()
	k.login(t)
	status, answer := ask(t, http.MethodPatch, k.URL+"/v3/users/"+k.userID(t), map[string]string{"X-Auth-Token": k.token},
		map[string]any{"user": map[string]any{"password": password}}, nil)
	require.Equal(t, http.StatusOK, status, answer)
}

func (k *Keystone) userID(t testing.TB) string {
	t.Helper()
	var mine struct {
		Token struct {
			User struct {
				ID string `json:"id"`
			} `json:"user"`
		} `json:"token"`
	}
	status, answer := ask(t, http.MethodGet, k.URL+"/v3/auth/tokens",
		map[string]string{"X-Auth-Token": k.token, "X-Subject-Token": k.token}, nil, &mine)
	require.Equal(t, http.StatusOK, status, answer)
	return mine.Token.User.ID
}

// Token issues a token for the user.
func (k *Keystone) Token(t testing.TB) string {
	t.Helper()
	k.login(t)
	return k.token
}

func (k *Keystone) login(t testing.TB) {
	t.Helper()
	k.token = k.admin().Token(t)
}

func (k *Keystone) post(t testing.TB, path string, body, into any) {
	t.Helper()
	status, answer := ask(t, http.MethodPost, k.URL+path, map[string]string{"X-Auth-Token": k.token}, body, into)
	require.Equal(t, http.StatusCreated, status, answer)
}
