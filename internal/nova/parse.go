package nova

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
)

// poison is a kind of message that no later attempt can read.
type poison string

// Error is the kind in words.
func (p poison) Error() string { return string(p) }

const (
	tooLarge      poison = "the message is larger than Nova's ever are"
	notJSON       poison = "the message is no JSON"
	wrongEnvelope poison = "the message has not oslo.messaging's envelope"
	noPayload     poison = "the notification has no versioned payload"
	wrongTypes    poison = "a field of the notification has a type or form that Nova never gives it"
)

// maxBody is far above Nova's largest notification, which is some 50 KiB.
const maxBody = 1 << 20

// notification is what oslo.messaging's Notifier sends.
type notification struct {
	MessageID   string          `json:"message_id"`
	PublisherID string          `json:"publisher_id"`
	EventType   string          `json:"event_type"`
	Timestamp   string          `json:"timestamp"`
	Payload     json.RawMessage `json:"payload"`
}

// instancePayload is what all of Nova's payloads about an instance have in common. The
// PCI address of a device is in none of them.
type instancePayload struct {
	Data *struct {
		UUID *string `json:"uuid"`
		Host *string `json:"host"`
		Node *string `json:"node"`
	} `json:"nova_object.data"`
}

// Parse reads a message's body. known is false for a notification that says nothing
// about devices; the error is for a message that nobody can read, now or later.
func Parse(body []byte) (event Event, known bool, err error) {
	n, err := unwrap(body)
	if err != nil {
		return Event{}, false, err
	}
	means, known := eventRules[n.EventType]
	if !known {
		return Event{}, false, nil
	}
	var payload instancePayload
	if len(n.Payload) == 0 {
		return Event{}, false, noPayload
	}
	if json.Unmarshal(n.Payload, &payload) != nil {
		return Event{}, false, wrongTypes
	}
	if payload.Data == nil {
		return Event{}, false, noPayload
	}
	data := payload.Data
	if data.UUID == nil {
		return Event{}, false, wrongTypes
	}
	instance, err := uuid.Parse(*data.UUID)
	if err != nil {
		return Event{}, false, wrongTypes
	}
	event = Event{Type: n.EventType, Instance: instance.String(), At: parseTime(n.Timestamp), ID: n.MessageID}

	host, ok1 := hostName(data.Host)
	node, ok2 := hostName(data.Node)
	publisher, ok3 := publisherHost(n.PublisherID)
	if !ok1 || !ok2 || !ok3 {
		return Event{}, false, wrongTypes
	}
	if means.evacuates && (publisher == "" || publisher == host) {
		return Event{}, false, nil
	}
	for _, name := range []string{host, node, publisher} {
		if name != "" && !slices.Contains(event.Hosts, name) {
			event.Hosts = append(event.Hosts, name)
		}
	}
	// A node's name may differ from its own host's: only hosts tell two sides apart.
	bothSides := host != "" && publisher != "" && host != publisher
	event.AllHosts = means.moves && !bothSides || len(event.Hosts) == 0
	return event, true, nil
}

// unwrap takes the notification out of oslo.messaging's envelope. The driver
// "messaging", without v2, sends it bare.
func unwrap(body []byte) (n notification, err error) {
	if len(body) > maxBody {
		return n, tooLarge
	}
	if !json.Valid(body) {
		return n, notJSON
	}
	var envelope struct {
		Message *string `json:"oslo.message"`
	}
	if json.Unmarshal(body, &envelope) != nil {
		return n, wrongEnvelope
	}
	if envelope.Message != nil {
		body = []byte(*envelope.Message)
		if !json.Valid(body) {
			return n, notJSON
		}
	}
	if json.Unmarshal(body, &n) != nil {
		return n, wrongTypes
	}
	if n.EventType == "" {
		return n, wrongEnvelope
	}
	return n, nil
}

// publisherHost is the host of a compute service's publisher_id, "nova-compute:h1". An
// API's or a conductor's host has no devices.
func publisherHost(publisher string) (string, bool) {
	service, host, found := strings.Cut(publisher, ":")
	if !found || service != "nova-compute" {
		return "", true
	}
	return hostName(&host)
}

// hostName is a host's name in lower case, "" where there is none, and false for what
// can be no name.
func hostName(name *string) (string, bool) {
	if name == nil {
		return "", true
	}
	ok := len(*name) <= 255 && !strings.ContainsFunc(*name, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
	})
	return strings.ToLower(*name), ok
}

// parseTime reads Nova's time stamp, which is UTC and says so only in ISO forms. The zero
// time stands for one that nobody can read: the hint is as good without.
func parseTime(text string) time.Time {
	for _, form := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(form, text); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}
