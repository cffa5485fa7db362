package redfish

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"burnish/internal/hardware"
)

// message is one of a BMC's messages, whatever it is about.
type message struct {
	// property is the one at which it stands; "": the whole request.
	property string
	ID       string   `json:"MessageId" bmc:"optional"`
	Text     string   `json:"Message" bmc:"optional"`
	Args     []string `json:"MessageArgs" bmc:"optional"`
	Severity string
	Newer    string `json:"MessageSeverity"` // a newer name of Severity; some write both
}

// String is one short line.
func (m message) String() string {
	return hardware.OneLine(strings.Join([]string{m.property, m.ID, m.Text}, " "))
}

// severity is what the BMC says of it in lower case, "" for nothing.
func (m message) severity() string { return strings.ToLower(cmp.Or(m.Newer, m.Severity)) }

func (m message) critical() bool {
	return strings.EqualFold(m.Severity, "Critical") || strings.EqualFold(m.Newer, "Critical")
}

// extendedInfo ends the name of a property with messages, after that of the property that they are about.
const extendedInfo = "@Message.ExtendedInfo"

// messages gives the extended messages of an answer: of an error, beside the content, at a property.
func (a answer) messages() []message {
	document, err := parse(a.Body)
	if err != nil {
		return nil // an error page of a web server
	}
	all := messagesIn(document)
	if body, _ := document.(map[string]any); len(all) == 0 && body["error"] != nil {
		var one struct {
			ID   string `json:"code" bmc:"optional"`
			Text string `json:"message" bmc:"optional"`
		}
		if (reader{}).read("error", body["error"], reflect.ValueOf(&one).Elem()) != nil {
			one.Text = wrongType("error", body["error"]).Error()
		}
		all = []message{{ID: one.ID, Text: one.Text}}
	}
	return all
}

// messagesIn gives all messages in a document, in the order of their properties.
func messagesIn(v any) (all []message) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			all = append(all, messagesIn(one)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			property, is := strings.CutSuffix(key, extendedInfo)
			if !is {
				all = append(all, messagesIn(v[key])...)
				continue
			}
			list, ok := v[key].([]any)
			if !ok {
				list = []any{v[key]}
			}
			for _, text := range list {
				one := message{property: property}
				if err := (reader{}).read(key, text, reflect.ValueOf(&one).Elem()); err != nil {
					one.Text = err.Error()
				}
				all = append(all, one)
			}
		}
	}
	return all
}

// The last parts of IDs that say yes, or no, whatever the severity.
var (
	saysYes = regexp.MustCompile(`(?i)^(success|accepted|created|nooperation|\w*(reset|reboot|restart)required)$`)
	saysNo  = regexp.MustCompile(`(Not|Un(known|able|available|supported|authorized)|Invalid|Error|Fail\w*|` +
		`Missing|Denied|Insufficient|Conflict|Exceeded)([A-Z]|$)`)
)

// refuses: it says that the request, or a part of it, was not carried out, or something with a
// severity that is not known to be a yes.
func (m message) refuses() bool {
	id := m.ID[strings.LastIndexByte(m.ID, '.')+1:]
	switch {
	case saysYes.MatchString(id):
		return false
	case saysNo.MatchString(id):
		return true
	case slices.Contains([]string{"ok", "information", "informational"}, m.severity()):
		return false
	}
	return m.property != "" || m.severity() != ""
}

// refused is the refusal of an answer that says no with a status that says yes; nil: there is none. What
// was read is an error in the place of the resource, what was to be changed has a message that refuses.
func (a answer) refused() error {
	var no bool
	if a.Method == http.MethodGet {
		var body struct {
			Error any `json:"error"`
			ID    any `json:"@odata.id"`
		}
		no = json.Unmarshal(a.Body, &body) == nil && body.Error != nil && body.ID == nil
	} else {
		no = slices.ContainsFunc(a.messages(), message.refuses)
	}
	if !no {
		return nil
	}
	return &refusal{Method: a.Method, Path: a.Path, Status: a.Status, Messages: a.messages()}
}
