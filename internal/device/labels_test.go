package device

import (
	"fmt"
	"strings"
	"testing"
)

// Labels have kubectl's characters, and are bounded.
func TestLabels(t *testing.T) {
	long := strings.Repeat("a", MaxLabelText)
	for text, valid := range map[string]bool{
		"rack=a1": true, "rack=": true, "example.com/rack=A_1.x-y": true, long + "=" + long: true,
		"": false, "rack": false, "=a": false, "rack=a b": false, "rack=-a": false, "-rack=a": false, "rack=a/b": false,
		"a/b/c=d": false, "rack=\x1b[2J": false, "räck=a": false, long + "a=b": false, "b=" + long + "a": false,
		"rack=a,b": false,
	} {
		if _, _, err := ParseLabel(text); (err == nil) != valid {
			t.Errorf("%q: %v, want valid: %t", text, err, valid)
		}
	}
	many := map[string]string{}
	for i := range MaxLabels {
		many[fmt.Sprint("k", i)] = ""
	}
	if err := CheckLabels(many); err != nil {
		t.Error(err)
	}
	if _, err := (LabelChange{Set: map[string]string{"one-more": ""}}).Of(many); err == nil {
		t.Errorf("%d labels were allowed", MaxLabels+1)
	}
	if next, err := (LabelChange{Set: map[string]string{"other": ""}, Remove: []string{"k0"}}).Of(many); err != nil ||
		len(next) != MaxLabels {
		t.Errorf("one in the place of another: %v, %v", next, err)
	}
}

// A change sets and removes labels; another value needs its own word.
func TestLabelChange(t *testing.T) {
	for _, tt := range []struct {
		had, change, want, wrong string
		overwrite                bool
	}{
		{change: "a=1 b=2", want: "a=1,b=2"},
		{had: "a=1", change: "b=", want: "a=1,b="},
		{had: "a=1,b=2", change: "a-", want: "b=2"},
		{had: "a=1", change: "a-", want: ""},
		{had: "a=1", change: "c-", want: "a=1"},
		{had: "a=1", change: "a=1", want: "a=1"},
		{had: "a=1", change: "a=2", wrong: "label a is 1 already"},
		{had: "a=1", change: "a=2", overwrite: true, want: "a=2"},
		{change: "a=1 a=2", wrong: "label a is given twice"},
		{change: "a=1 a-", wrong: "label a is set and removed"},
		{change: "a_-", wrong: "the key must be"},
		{change: "a", wrong: "must be KEY=VALUE"},
	} {
		had := map[string]string{}
		for part := range strings.SplitSeq(tt.had, ",") {
			if part != "" {
				key, value, _ := strings.Cut(part, "=")
				had[key] = value
			}
		}
		before := LabelsText(had)
		c, err := ParseLabelChange(strings.Fields(tt.change))
		c.Overwrite = tt.overwrite
		var got map[string]string
		if err == nil {
			got, err = c.Of(had)
		}
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %v, want %q", tt.change, err, tt.wrong)
			}
		} else if err != nil || LabelsText(got) != tt.want || len(got) == 0 && got != nil {
			t.Errorf("%s with %s: %v, %v, want %s", tt.had, tt.change, got, err, tt.want)
		}
		if LabelsText(had) != before {
			t.Errorf("%s: the labels before became %v", tt.change, had)
		}
	}
	if _, err := (LabelChange{Set: map[string]string{"a": "1"}, Remove: []string{"a"}}).Of(nil); err == nil {
		t.Error("set and removed at once")
	}
}

// A selector has kubectl's terms, all of which must hold.
func TestLabelSelector(t *testing.T) {
	labels := map[string]string{"rack": "a", "tier": ""}
	for text, want := range map[string]bool{
		"rack=a": true, "rack==a": true, "rack=b": false, "rack!=b": true, "rack!=a": false, "rack": true, "!rack": false,
		"shelf": false, "!shelf": true, "shelf!=1": true, "shelf=": false, "tier=": true, "tier": true,
		"rack=a,tier": true, "rack=a, shelf": false,
	} {
		s, err := ParseLabelSelector(text)
		if err != nil || s.Selects(labels) != want {
			t.Errorf("%s: %v, %v, want %t", text, s, err, want)
		}
	}
	for _, text := range []string{"", ",", "a=1,", "=", "a b", "!", "a=b=c", "a=1;b=2"} {
		if s, err := ParseLabelSelector(text); err == nil {
			t.Errorf("%q is read as %v", text, s)
		}
	}
	if !(LabelSelector)(nil).Selects(nil) {
		t.Error("no selector selects all")
	}
}
