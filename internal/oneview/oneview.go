// Package oneview talks to appliances of HPE OneView: who has a server, its profile, its
// power. The applied server profile decides who has a server (S4.1–S4.3); nothing here
// changes a server that another user has (S4.23, S4.26).
//
//	oneview.go     Pools, the port that activities use
//	appliances.go  Pools of oneview.yaml; file.go reads it
//	session.go     login, versions, logout; client.go sends and reads one request
//	look.go        what the appliance shows of a server; ownership.go says whose it is
//	profile.go     a profile is applied or removed; decide.go says what is next
//	page.go        one page of all servers
package oneview

import (
	"context"
	"time"

	"burnish/internal/device"
)

// Server is a server of an appliance as Burnish knows it.
type Server struct {
	// Hardware and Template are URIs on the appliance.
	Hardware, Template string
	// UUID is the device's, and the name of the profile that Burnish applies.
	UUID string
	// Serial is the server's as its host saw it; a server with another one is refused.
	Serial string
	// Recorded is the URI of the profile that Burnish has recorded; "" if it has none.
	Recorded string
	// Applying: a profile was requested whose URI is not recorded yet: one with the UUID as
	// its name is Burnish's.
	Applying bool
	// Tag is the appliance's of the server after Burnish's own last act; "" if it is not known. With
	// one, Apply is for a tenant: others may not have used the server since (F34).
	Tag string
}

// Found is what the appliance says of a server.
type Found struct {
	Ownership device.Ownership
	// Profile is the URI of the profile on it; "" if there is none.
	Profile string
	// Power is On or Off.
	Power string
	// Tag changes whenever the appliance changes the server; "" where it is not compared.
	Tag string
	// Gap, of Apply and Remove: others may have used the server unseen, since Burnish's own last act
	// or between that and its profile.
	Gap bool
}

// Hardware is one server of a page.
type Hardware struct {
	URI, Name, Serial, UUID, Model string
	Profile                        string // URI of the applied profile; "" if there is none
	Power, State, Type, Group      string
	Tag                            string // as in Found
}

// Page is a page of servers. Next is the start of the next one, 0 after the last.
type Page struct {
	Servers     []Hardware
	Next, Total int
}

// Progress reports how far a task of the appliance is. Its error ends the wait, and not the
// task.
type Progress func(percent int, doing string) error

// Settings are those of one appliance.
type Settings struct {
	// Interval is the pause between two rounds of the polls; 0 turns them off (S4.14, S4.15).
	Interval time.Duration
	// ApplyTimeout bounds one profile's application or removal (S4.30).
	ApplyTimeout time.Duration
	// PageSize is how many servers one request of the polls asks for (S4.31).
	PageSize int
	// IgnoreTags: the appliance changes idle servers by itself, so that a change says nothing.
	IgnoreTags bool
}

// Pools are the appliances that a control worker knows. Faults are *device.Fault.
type Pools interface {
	// Names are the appliances' names, sorted.
	Names() []string
	// Settings are those of an appliance, as its file says now.
	Settings(appliance string) (Settings, error)
	// Read says who has a server. It changes nothing.
	Read(ctx context.Context, appliance string, s Server) (Found, error)
	// Apply makes sure that the server has Burnish's profile, and gives its URI. A second
	// call finds the first one's profile or task. A server that others have is refused with
	// CodeServerTaken.
	Apply(ctx context.Context, appliance string, s Server, progress Progress) (Found, error)
	// Remove switches the server off and removes Burnish's profile from it. A second call
	// finds it done. A profile that is not Burnish's stays, and so does its server's power.
	Remove(ctx context.Context, appliance string, s Server, progress Progress) (Found, error)
	// Page gives the servers from start on, count of them at most.
	Page(ctx context.Context, appliance string, start, count int) (Page, error)
	// Close logs out.
	Close(ctx context.Context) error
}
