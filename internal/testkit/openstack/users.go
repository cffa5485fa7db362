package openstack

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// Account is a user of a Keystone, with a role in its project.
type Account struct {
	Name     string
	keystone *Keystone
}

// admin is the user that Keystone starts with.
func (k *Keystone) admin() Account { return Account{User, k} }

// AddUser creates a user with one of Keystone's own roles (admin, member, reader) in the
// project.
func (k *Keystone) AddUser(t testing.TB, name, role string) Account {
	t.Helper()
	k.login(t)
	var made struct{ User struct{ ID string } }
	k.post(t, "/v3/users",
		map[string]any{"user": map[string]any{"name": name, "password": Password, "domain_id": "default"}}, &made)
	project := k.idOf(t, "projects", Project)
	status, answer := ask(t, http.MethodPut, k.URL+"/v3/projects/"+project+"/users/"+made.User.ID+"/roles/"+
		k.idOf(t, "roles", role),
		map[string]string{"X-Auth-Token": k.token}, nil, nil)
	require.Equal(t, http.StatusNoContent, status, answer)
	return Account{name, k}
}

// idOf gives the ID of the one resource with this name.
func (k *Keystone) idOf(t testing.TB, kind, name string) string {
	t.Helper()
	var found map[string]any
	status, answer := ask(t, http.MethodGet, k.URL+"/v3/"+kind+"?name="+url.QueryEscape(name),
		map[string]string{"X-Auth-Token": k.token}, nil, &found)
	require.Equal(t, http.StatusOK, status, answer)
	all, ok := found[kind].([]any)
	require.True(t, ok && len(all) == 1, answer)
	one, ok := all[0].(map[string]any)
	require.True(t, ok, answer)
	id, ok := one["id"].(string)
	require.True(t, ok, answer)
	return id
}

// Environment is that of a usual openrc file of the user that Keystone starts with.
func (k *Keystone) Environment() map[string]string { return k.admin().Environment() }

// Environment is that of a usual openrc file.
func (a Account) Environment() map[string]string {
	return map[string]string{
		"OS_AUTH_URL": a.keystone.URL + "/v3", "OS_USERNAME": a.Name, "OS_PASSWORD": Password, "OS_PROJECT_NAME": Project,
		"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_REGION_NAME": Region,
		"OS_IDENTITY_API_VERSION": "3", "OS_INTERFACE": "public",
	}
}

// Token issues a token for the user, scoped to the project.
func (a Account) Token(t testing.TB) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.keystone.URL+"/v3/auth/tokens",
		encode(t, map[string]any{"auth": map[string]any{
			"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{
				"name": a.Name, "password": Password, "domain": map[string]any{"id": "default"},
			}}},
			"scope": map[string]any{"project": map[string]any{"name": Project, "domain": map[string]any{"id": "default"}}},
		}}))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusCreated, answer.StatusCode)
	return answer.Header.Get("X-Subject-Token")
}
