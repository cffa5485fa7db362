package device

import (
	"fmt"
	"sort"
	"strings"
)

// RowDoc is one row of the machine for people and programs.
type RowDoc struct {
	From  []string `json:"from"`
	Event string   `json:"event"`
	When  []string `json:"when"`
	To    string   `json:"to"`
	Then  []string `json:"then"`
}

// Rows gives the whole machine in its own order.
func Rows() []RowDoc {
	docs := make([]RowDoc, 0, len(table))
	for _, r := range table {
		doc := RowDoc{Event: string(r.On), To: r.To.String(), From: []string{}, When: []string{}, Then: []string{}}
		for _, s := range r.states() {
			doc.From = append(doc.From, s.String())
		}
		if r.To == stay {
			doc.To = "unchanged"
		}
		for _, c := range r.When {
			doc.When = append(doc.When, c.name)
		}
		for _, e := range r.Then {
			doc.Then = append(doc.Then, e.name)
		}
		docs = append(docs, doc)
	}
	return docs
}

// Markdown gives the machine as a table for README.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| from | event | when | to | then |\n|---|---|---|---|---|\n")
	for i, r := range Rows() {
		from := strings.Join(r.From, ", ")
		if table[i].From == nil {
			from = "any but retired"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", from, r.Event, strings.Join(r.When, ", "), r.To, strings.Join(r.Then, "; "))
	}
	return b.String()
}

// Mermaid gives the machine as a state diagram: one arrow for each pair of states,
// labelled with its events. Events that are legal in every state are left to the
// table.
func Mermaid() string {
	type edge struct{ from, to State }
	labels := map[edge][]string{}
	for _, r := range table {
		if r.To == stay || r.From == nil {
			continue
		}
		for _, from := range r.From {
			e := edge{from, r.To}
			if l := labels[e]; len(l) == 0 || l[len(l)-1] != string(r.On) {
				labels[e] = append(l, string(r.On))
			}
		}
	}
	edges := make([]edge, 0, len(labels))
	for e := range labels {
		edges = append(edges, e)
	}
	rank := map[State]int{Absent: 0}
	for i, s := range States() {
		rank[s] = i + 1
	}
	sort.Slice(edges, func(i, j int) bool {
		if edges[i].from != edges[j].from {
			return rank[edges[i].from] < rank[edges[j].from]
		}
		return rank[edges[i].to] < rank[edges[j].to]
	})
	point := func(s State) string {
		if s == Absent {
			return "[*]"
		}
		return string(s)
	}
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, e := range edges {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", point(e.from), point(e.to), strings.Join(labels[e], " · "))
	}
	return b.String()
}
