package api

import (
	"context"

	"burnish/internal/device"
	"burnish/workflows/client"
)

// versionsDocument is what GET / answers, as Cyborg does; openstacksdk finds the API by it.
type versionsDocument struct {
	Name           string       `json:"name"`
	Description    string       `json:"description"`
	Versions       []apiVersion `json:"versions"`
	DefaultVersion apiVersion   `json:"default_version"`
}

// versionDocument is what GET /v2 answers.
type versionDocument struct {
	Version apiVersion `json:"version"`
}

// apiVersion is one major version with its microversions. Version is MaxVersion, under the
// name that older clients read.
type apiVersion struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	MinVersion string `json:"min_version"`
	MaxVersion string `json:"max_version"`
	Version    string `json:"version"`
	Links      []link `json:"links"`
}

// link is a reference. href is a path: clients resolve it against the address that they used,
// whatever stands between them and this worker.
type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

var v2 = apiVersion{ID: "v2.0", Status: "CURRENT", MinVersion: oldest.String(), MaxVersion: newest.String(),
	Version: newest.String(),
	Links:   []link{{"self", "/v2"}}}

func getVersions(context.Context, *call) (any, error) {
	return versionsDocument{Name: "Burnish", Description: "Cleaning of passthrough devices between cloud tenants",
		Versions: []apiVersion{v2}, DefaultVersion: v2}, nil
}

func getVersion(context.Context, *call) (any, error) { return versionDocument{v2}, nil }

// health is the answer of /healthz and /readyz.
type health struct {
	Status string `json:"status"`
}

func getHealth(context.Context, *call) (any, error) { return health{"ok"}, nil }

// getReadiness answers 503 while the API cannot answer requests.
func getReadiness(ctx context.Context, c *call) (any, error) {
	if err := c.Ready(ctx); err != nil {
		c.Log.Debug("the API is not ready", "error", err) // whose words not everybody may read
		return nil, unavailable(err)
	}
	return health{"ready"}, nil
}

// unavailable says why the API cannot answer at present.
func unavailable(err error) error {
	if refusal, ok := client.Fault(err); ok {
		return &refusal.Fault
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeUnreachable, Message: "not ready: " + err.Error(),
		Remedy: "try again"}
}
