package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"burnish/internal/api/access"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// The headers that make a repetition of a change harmless, and the one that answers name.
const (
	keyHeader     = "Idempotency-Key"
	requestHeader = access.RequestIDHeader
)

var keyForm = regexp.MustCompile(`^[!-~]([ -~]{0,253}[!-~])?$`)

// requestKeys is the UUID namespace of the IDs of updates.
var requestKeys = uuid.NewSHA1(uuid.NameSpaceURL, []byte("burnish:request"))

// caller says who sends the change, and from where, for the device's history.
func (c *call) caller() contract.Caller {
	by := c.who.ID
	if c.who.Name != "" && c.who.Name != c.who.ID {
		by = c.who.Name + " (" + c.who.ID + ")"
	}
	return contract.Caller{By: by, From: c.from()}
}

// from is the address that the request came from, without its port: "unix" for a socket.
func (c *call) from() string {
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		return "unix"
	}
	return host
}

// withRequest gives the update that the change sends an ID of its own, if its caller names
// the request: the same caller's same request is carried out once. Under an Idempotency-Key
// another body is refused. A request ID of OpenStack may be that of several requests, and with
// another body it is another request.
func (c *call) withRequest(ctx context.Context, in any) context.Context {
	key, body := c.r.Header.Get(keyHeader), []byte(nil)
	text, err := json.Marshal(in)
	if err != nil {
		return ctx // the device refuses what cannot be written
	}
	parts := []string{c.who.ID, c.route.Operation, cmp.Or(c.name, c.instance), key}
	switch id := c.r.Header.Get(requestHeader); {
	case key != "":
		body = text
	case id != "":
		parts[3] = id + "\n" + string(text)
	default:
		return ctx
	}
	return client.WithRequest(ctx,
		contract.RequestID(uuid.NewSHA1(requestKeys, []byte(strings.Join(parts, "\n"))).String(), body))
}

// checkKeys refuses keys that are no keys, and names the request in its answer.
func (c *call) checkKeys() error {
	for _, name := range []string{keyHeader, requestHeader} {
		switch values := c.r.Header.Values(name); {
		case len(values) == 0:
		case len(values) > 1:
			return invalid("the header "+name+" is given twice", "give it once")
		case !keyForm.MatchString(values[0]):
			return invalid("the header "+name+" is not 1 to 255 printable characters", "give another one, as a UUID")
		}
	}
	record := access.RecordOf(c.r.Context())
	record.ID = cmp.Or(c.r.Header.Get(requestHeader), record.ID)
	c.header.Set(requestHeader, record.ID)
	return nil
}
