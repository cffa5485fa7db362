package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"burnish/internal/device"
)

// maxBody is the largest body of a request.
const maxBody = 64 << 10

// readBody reads the request's body into in. Without a body in stays as it is. Members that
// in does not have, or in another case, members that are there twice, and anything after the
// object are refused.
func (c *call) readBody(in any) error {
	text, err := io.ReadAll(http.MaxBytesReader(nil, c.r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &device.Fault{Class: device.Permanent, Code: device.CodeRequestTooLarge,
			Message: fmt.Sprintf("the body is larger than %d KiB", maxBody>>10), Remedy: "shorten its texts"}
	case err != nil:
		return invalid("the body cannot be read: "+err.Error(), "send it whole")
	case len(bytes.TrimSpace(text)) == 0:
		return nil
	}
	contentType := strings.Join(c.r.Header.Values("Content-Type"), ", ") // several are none
	if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != "application/json" {
		return &device.Fault{Class: device.Permanent, Code: device.CodeMediaType,
			Message: fmt.Sprintf("the body's Content-Type is %q", contentType), Remedy: "send application/json"}
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return invalid("the body is not a JSON object", "send one, or no body")
	}
	if err := json.Unmarshal(text, in, json.RejectUnknownMembers(true)); err != nil {
		return invalid("the body is not valid: "+describe(err), "see "+openAPIPath+" for its form")
	}
	return nil
}

// describe says what is wrong with a body, without the names of Go's types.
func describe(err error) string {
	var wrong *json.SemanticError
	if !errors.As(err, &wrong) {
		return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "json: "), "jsontext: ")
	}
	kind := strings.NewReplacer("{", "object", "[", "array").Replace(wrong.JSONKind.String())
	what := "a JSON " + kind + " does not fit"
	if wrong.Err != nil {
		what = wrong.Err.Error()
	}
	if wrong.JSONPointer != "" {
		what += " at " + strconv.Quote(string(wrong.JSONPointer))
	}
	return what
}

func invalid(message, remedy string) error {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInvalid, Message: message, Remedy: remedy}
}
