package api

import (
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The words of a wrong body are for its sender, who knows no type of Go.
func TestWhatIsWrongWithABodyIsSaidInItsOwnWords(t *testing.T) {
	for body, says := range map[string]string{
		`{"Reason":"r"}`:                 `unknown object member name at "/Reason"`,
		`{"clean_steps":[{"stop":"x"}]}`: `unknown object member name at "/clean_steps/0/stop"`,
		`{"clean_steps":3}`:              `a JSON number does not fit at "/clean_steps"`,
		`{"reason":{"a":1}}`:             `a JSON object does not fit at "/reason"`,
		`{"reason":"a","reason":"b"}`:    `duplicate object member name "reason"`,
		`{"reason":"a"`:                  `unexpected EOF after offset 13`,
	} {
		var in contract.CleanBody
		err := json.Unmarshal([]byte(body), &in, json.RejectUnknownMembers(true))
		require.Error(t, err)
		require.Equal(t, says, describe(err))
	}
}

// What the first header says, another program on the way may not have read.
func TestARequestHasOneContentType(t *testing.T) {
	devices := oneDevice()
	w := send(t, testServer(t, devices), "POST", cleanPath, `{"reason":"r"}`, admin, at21, "content-type: text/plain")
	requireProblem(t, w, http.StatusUnsupportedMediaType, device.CodeMediaType)
	require.Empty(t, devices.sent)
}
