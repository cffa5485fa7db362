package nova

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"
)

// poison is why a message can never be read.
type poison string

// Error is the kind in words.
func (p poison) Error() string { return string(p) }

const (
	tooLarge      poison = "the message is larger than any of Nova's"
	notJSON       poison = "the message is not JSON"
	wrongEnvelope poison = "the message does not have oslo.messaging's envelope"
	noPayload     poison = "the notification has no versioned payload"
	wrongTypes    poison = "a field of the notification has a type or form that Nova never uses"
)

// maxBody is far above Nova's largest notification, which is about 50 KiB.
const maxBody = 1 << 20

// notification is what oslo.messaging's Notifier sends.
type notification struct {
	PublisherID string          `json:"publisher_id"`
	EventType   string          `json:"event_type"`
	Payload     json.RawMessage `json:"payload"`
}

// instancePayload is what all of Nova's payloads about an instance have in common. None
// contains the PCI address of a device.
type instancePayload struct {
	Data *struct {
		UUID *string `json:"uuid"`
		Host *string `json:"host"`
		Node *string `json:"node"`
	} `json:"nova_object.data"`
}

// Parse reads a message's body. known is false for a notification that does not concern
// devices; the error is for a message that can never be read.
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
	event = Event{Type: n.EventType, Instance: instance.String()}

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
	// A node may have another name than its host: only hosts distinguish the two sides.
	bothSides := host != "" && publisher != "" && host != publisher
	event.AllHosts = means.moves && !bothSides || len(event.Hosts) == 0
	return event, true, nil
}

// unwrap reads the notification in oslo.messaging's envelope. The driver "messaging",
// without v2, sends it without an envelope.
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

// publisherHost is the host in a compute service's publisher_id, "nova-compute:h1". Hosts
// of an API or a conductor have no devices.
func publisherHost(publisher string) (string, bool) {
	service, host, found := strings.Cut(publisher, ":")
	if !found || service != "nova-compute" {
		return "", true
	}
	return hostName(&host)
}

// hostName is a host's name in lower case, "" if there is none, and false for an invalid
// name.
func hostName(name *string) (string, bool) {
	if name == nil {
		return "", true
	}
	ok := len(*name) <= 255 && !strings.ContainsFunc(*name, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
	})
	return strings.ToLower(*name), ok
}
