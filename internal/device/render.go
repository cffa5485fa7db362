package device

import (
	"fmt"
	"slices"
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
		if r.To == noChange {
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

// Markdown gives the machine as a table for people: the rows of one state together,
// in the order of States, and what is legal in several states behind them.
func Markdown() string {
	order := make([]int, len(table))
	for i := range order {
		order[i] = i
	}
	rank := ranks()
	group := func(r row) int {
		if len(r.From) != 1 {
			return len(rank)
		}
		return rank[r.From[0]]
	}
	sort.SliceStable(order, func(a, b int) bool { return group(table[order[a]]) < group(table[order[b]]) })
	var b strings.Builder
	b.WriteString("| from | event | when | to | then |\n|---|---|---|---|---|\n")
	docs, above := Rows(), ""
	for _, i := range order {
		r := docs[i]
		from := "**" + strings.Join(r.From, ", ") + "**"
		if table[i].From == nil {
			from = "**any but retired**"
		}
		shown := from
		if from == above {
			shown = ""
		}
		above = from
		writeRow(&b, shown, r.Event, strings.Join(r.When, ", "), r.To, strings.Join(r.Then, ", "))
	}
	return b.String()
}

func ranks() map[State]int {
	rank := map[State]int{Absent: 0}
	for i, s := range States() {
		rank[s] = i + 1
	}
	return rank
}

// Mermaid gives the machine as a state diagram: one arrow for each pair of states,
// labeled with its events. Events that are legal in every state are left to the
// table.
func Mermaid() string {
	type edge struct{ from, to State }
	labels := map[edge][]string{}
	for _, r := range table {
		if r.To == noChange || r.From == nil {
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
	rank := ranks()
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

// ObservationDoc is one row of the second table for people and programs.
type ObservationDoc struct {
	Questions []string `json:"questions"`
	From      []string `json:"from"`
	When      []string `json:"when"`
	Event     string   `json:"event"`
	Then      []string `json:"then"`
	Reason    string   `json:"reason"`
}

// ObservationRows gives the whole second table in its own order.
func ObservationRows() []ObservationDoc {
	docs := make([]ObservationDoc, 0, len(observations))
	for _, r := range observations {
		doc := ObservationDoc{Questions: []string{}, From: []string{}, When: []string{}, Then: []string{},
			Event: string(r.Event), Reason: string(r.Why)}
		for _, q := range r.Ask {
			doc.Questions = append(doc.Questions, string(q))
		}
		for _, s := range r.states() {
			doc.From = append(doc.From, s.String())
		}
		for _, f := range r.When {
			doc.When = append(doc.When, f.name)
		}
		for _, f := range r.Then {
			doc.Then = append(doc.Then, f.name)
		}
		docs = append(docs, doc)
	}
	return docs
}

// ObservationMarkdown gives the second table for people, in its own order: the rows of one
// set of questions together.
func ObservationMarkdown() string {
	var b strings.Builder
	b.WriteString("| asked | state | when | event | then | why |\n|---|---|---|---|---|---|\n")
	above := ""
	for _, r := range ObservationRows() {
		asked := "**" + strings.Join(r.Questions, ", ") + "**"
		shown := asked
		if asked == above {
			shown = ""
		}
		above = asked
		writeRow(&b, shown, statesText(r.From), strings.Join(r.When, ", "), r.Event, strings.Join(r.Then, ", "), r.Reason)
	}
	return b.String()
}

// statesText names states, by those that are missing where that is shorter.
func statesText(from []string) string {
	var missing []string
	for _, s := range States() {
		if !slices.Contains(from, string(s)) {
			missing = append(missing, string(s))
		}
	}
	switch {
	case len(missing) == 0:
		return "any"
	case len(missing) <= 2:
		return "any but " + strings.Join(missing, ", ")
	}
	return strings.Join(from, ", ")
}

// writeRow writes one row of a Markdown table; an empty cell is one space wide.
func writeRow(b *strings.Builder, cells ...string) {
	for _, cell := range cells {
		b.WriteString("|")
		if cell != "" {
			b.WriteString(" " + cell)
		}
		b.WriteString(" ")
	}
	b.WriteString("|\n")
}
