package oneviewsim

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// list answers with a page of the documents of things: start and count choose it, after filter
// and sort.
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
	docs := make([]map[string]any, 0, len(things))
	for _, thing := range things {
		docs = append(docs, doc(thing))
	}
	docs, err := narrow(query, docs)
	if err != nil {
		return invalid(http.StatusBadRequest, "The parameters filter and sort are not valid.", err.Error())
	}
	members := append([]map[string]any{}, docs[min(start, len(docs)):min(start+count, len(docs))]...)
	var next any
	if start+len(members) < len(docs) && len(members) > 0 {
		query.Set("start", strconv.Itoa(start+len(members)))
		query.Set("count", strconv.Itoa(count))
		next = c.URL.Path + "?" + query.Encode()
	}
	return ok(map[string]any{
		"type": kind, "uri": c.URL.RequestURI(), "start": start, "count": len(members), "total": len(docs),
		"nextPageUri": next, "members": members, "created": nil, "modified": nil, "eTag": nil,
	})
}

func number(query url.Values, name string, fallback int) (int, error) {
	if !query.Has(name) {
		return fallback, nil
	}
	return strconv.Atoi(query.Get(name))
}

// The filter and the order that clients use: 'name'='value', and name:ascending or descending.
var (
	filterForm = regexp.MustCompile(`^"?\s*'?(\w+)'?\s*=\s*'([^']*)'\s*"?$`)
	sortForm   = regexp.MustCompile(`^(\w+)(?::(asc|desc)\w*)?$`)
)

// narrow are the documents that the filter lets through, in their order.
func narrow(query url.Values, docs []map[string]any) ([]map[string]any, error) {
	form := func(name string, form *regexp.Regexp) ([]string, error) {
		found := form.FindStringSubmatch(query.Get(name))
		if found == nil {
			return nil, fmt.Errorf("the %s %q is not valid", name, query.Get(name))
		}
		for _, one := range docs {
			if _, has := one[found[1]]; !has {
				return nil, fmt.Errorf("there is no attribute %q", found[1])
			}
		}
		return found, nil
	}
	if query.Has("filter") {
		by, err := form("filter", filterForm)
		if err != nil {
			return nil, err
		}
		docs = slices.DeleteFunc(docs, func(one map[string]any) bool {
			return !strings.EqualFold(fmt.Sprint(one[by[1]]), by[2])
		})
	}
	if query.Has("sort") {
		by, err := form("sort", sortForm)
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(docs, func(x, y map[string]any) int {
			if by[2] == "desc" {
				x, y = y, x
			}
			return cmp.Compare(strings.ToLower(fmt.Sprint(x[by[1]])), strings.ToLower(fmt.Sprint(y[by[1]])))
		})
	}
	return docs, nil
}
