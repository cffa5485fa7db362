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

// list answers with a page of n documents: start and count choose it, after filter and sort.
func (a *Appliance) list(c *call, kind, category, path string, n int, doc func(int) map[string]any) answer {
	query := c.request.URL.Query()
	start, startErr := number(query, "start", 0)
	count, countErr := number(query, "count", a.config.DefaultPage)
	if startErr != nil || countErr != nil || start < 0 {
		return invalid(http.StatusBadRequest, "The parameters start and count are not valid.", c.request.URL.RawQuery)
	}
	if count <= 0 || count > a.config.MaxPage {
		count = a.config.MaxPage // -1 asks for all of them
	}
	at := func(i int) map[string]any { return doc(i) }
	if query.Has("filter") || query.Has("sort") {
		docs, err := narrow(query, n, doc)
		if err != nil {
			return invalid(http.StatusBadRequest, "The parameters filter and sort are not valid.", err.Error())
		}
		n, at = len(docs), func(i int) map[string]any { return docs[i] }
	}
	members := []any{}
	for i := start; i < min(start+count, n); i++ {
		members = append(members, at(i))
	}
	page := func(start int) any {
		twin := c.request.URL.Query()
		twin.Set("start", strconv.Itoa(max(start, 0)))
		twin.Set("count", strconv.Itoa(count))
		return path + "?" + twin.Encode()
	}
	var next, previous any
	if start+len(members) < n && len(members) > 0 {
		next = page(start + len(members))
	}
	if start > 0 {
		previous = page(start - count)
	}
	return ok(map[string]any{
		"type": kind, "category": category, "uri": c.request.URL.RequestURI(), "start": start, "count": len(members), "total": n,
		"nextPageUri": next, "prevPageUri": previous, "members": members, "created": nil, "modified": nil, "eTag": nil,
	})
}

func number(query url.Values, name string, fallback int) (int, error) {
	if !query.Has(name) {
		return fallback, nil
	}
	return strconv.Atoi(query.Get(name))
}

// narrow are the documents that every filter lets through, sorted.
func narrow(query url.Values, n int, doc func(int) map[string]any) ([]map[string]any, error) {
	var filters []filter
	for _, text := range query["filter"] {
		one, err := parseFilter(text)
		if err != nil {
			return nil, err
		}
		filters = append(filters, one)
	}
	docs := []map[string]any{}
	for i := range n {
		one, passes := doc(i), true
		for _, f := range filters {
			value, known := one[f.attribute]
			if !known {
				return nil, fmt.Errorf("there is no attribute %q", f.attribute)
			}
			passes = passes && f.passes(value)
		}
		if passes {
			docs = append(docs, one)
		}
	}
	return docs, order(docs, query.Get("sort"))
}

// order sorts by name:ascending,state:desc and the like.
func order(docs []map[string]any, by string) error {
	if by == "" {
		return nil
	}
	type key struct {
		attribute string
		descends  bool
	}
	var keys []key
	for _, text := range strings.Split(by, ",") {
		parts := strings.Split(text, ":")
		if len(docs) > 0 && docs[0][parts[0]] == nil && !hasKey(docs[0], parts[0]) {
			return fmt.Errorf("there is no attribute %q", parts[0])
		}
		keys = append(keys, key{parts[0], len(parts) > 1 && strings.HasPrefix(strings.ToLower(parts[1]), "desc")})
	}
	slices.SortStableFunc(docs, func(x, y map[string]any) int {
		for _, k := range keys {
			c := cmp.Compare(strings.ToLower(fmt.Sprint(x[k.attribute])), strings.ToLower(fmt.Sprint(y[k.attribute])))
			if k.descends {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return nil
}

func hasKey(doc map[string]any, name string) bool {
	_, has := doc[name]
	return has
}

// filter is one: [NOT] 'attribute' operator 'value'.
type filter struct {
	attribute string
	not       bool
	null      bool
	pattern   *regexp.Regexp
}

var filterForm = regexp.MustCompile(`(?i)^\s*(not\s+)?"?\s*(?:'([^']+)'|([A-Za-z][\w.]*))\s*(==|=|<>|!=|\b(?:eq|seq|ne|sne|matches|smatches|regex|sregex)\b)\s*(?:'([^']*)'|(null))\s*"?\s*$`)

func parseFilter(text string) (filter, error) {
	m := filterForm.FindStringSubmatch(strings.TrimPrefix(text, `"`))
	if m == nil {
		return filter{}, fmt.Errorf("the filter %q is not valid", text)
	}
	f := filter{attribute: m[2] + m[3], not: m[1] != "", null: m[6] != ""}
	operator := strings.ToLower(m[4])
	flags := "(?is)"
	if operator == "==" || strings.HasPrefix(operator, "s") {
		flags = "(?s)"
	}
	pattern := "^" + regexp.QuoteMeta(m[5]) + "$"
	switch operator {
	case "matches", "smatches":
		pattern = strings.NewReplacer("%", ".*", "_", ".").Replace(pattern)
	case "regex", "sregex":
		pattern = m[5]
	case "ne", "sne", "<>", "!=":
		f.not = !f.not
	}
	var err error
	f.pattern, err = regexp.Compile(flags + pattern)
	return f, err
}

func (f filter) passes(value any) bool {
	if f.null || value == nil {
		return (f.null && value == nil) != f.not
	}
	return f.pattern.MatchString(fmt.Sprint(value)) != f.not
}
