package oneviewsim

import (
	"net/http"
	"net/url"
	"strconv"
)

// list answers with a page of the documents of things: start and count choose it.
func list[T any](c *call, kind string, things []*T, doc func(*T) map[string]any) answer {
	query := c.URL.Query()
	start, startErr := number(query, "start", 0)
	count, countErr := number(query, "count", defaultPage)
	if startErr != nil || countErr != nil || start < 0 {
		return invalid(http.StatusBadRequest, "The parameters start and count are not valid.", c.URL.RawQuery)
	}
	if count <= 0 || count > maxPage {
		count = maxPage // -1 asks for all of them
	}
	members := []map[string]any{}
	for _, thing := range things[min(start, len(things)):min(start+count, len(things))] {
		members = append(members, doc(thing))
	}
	var next any
	if start+len(members) < len(things) && len(members) > 0 {
		query.Set("start", strconv.Itoa(start+len(members)))
		query.Set("count", strconv.Itoa(count))
		next = c.URL.Path + "?" + query.Encode()
	}
	return ok(map[string]any{
		"type": kind, "uri": c.URL.RequestURI(), "start": start, "count": len(members), "total": len(things),
		"nextPageUri": next, "members": members, "created": nil, "modified": nil, "eTag": nil,
	})
}

func number(query url.Values, name string, fallback int) (int, error) {
	if !query.Has(name) {
		return fallback, nil
	}
	return strconv.Atoi(query.Get(name))
}
