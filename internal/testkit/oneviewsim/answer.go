package oneviewsim

import (
	"net/http"
	"time"
)

// call is one request that reached the appliance, and is allowed to.
type call struct {
	request *http.Request
	at      time.Time
	id      string // the last part of the path that names something
	user    string
	json    map[string]any
}

// answer is what the appliance says.
type answer struct {
	status int
	header map[string]string
	body   map[string]any
}

func ok(doc map[string]any) answer { return answer{status: http.StatusOK, body: doc} }

// Problem is why something is refused, or how a task fails.
type Problem struct {
	ErrorCode          string   `json:"errorCode"`
	Message            string   `json:"message"`
	Details            string   `json:"details"`
	RecommendedActions []string `json:"recommendedActions"`
}

func problem(code, message, details string, actions ...string) Problem {
	if actions == nil {
		actions = []string{}
	}
	return Problem{ErrorCode: code, Message: message, Details: details, RecommendedActions: actions}
}

func refuse(status int, p Problem) answer {
	return answer{status: status, body: map[string]any{
		"errorCode": p.ErrorCode, "message": p.Message, "details": p.Details, "recommendedActions": p.RecommendedActions,
		"errorSource": nil, "nestedErrors": []any{}, "data": map[string]any{},
	}}
}

func notFound(path string) answer {
	return refuse(http.StatusNotFound, problem("RESOURCE_NOT_FOUND",
		"The requested resource could not be found.", "The resource "+path+" does not exist.",
		"Check the requested resource URI and try again."))
}

func invalid(status int, message, details string) answer {
	return refuse(status, problem("INVALID_REQUEST", message, details, "Correct the request and resend it."))
}

// orNull is a URI in a document.
func orNull(uri string) any {
	if uri == "" {
		return nil
	}
	return uri
}

func timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// text is a field of a document that was sent; empty where there is none.
func text(doc map[string]any, key string) string {
	value, _ := doc[key].(string)
	return value
}
