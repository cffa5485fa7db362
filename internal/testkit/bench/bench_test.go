package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	updatepb "go.temporal.io/api/update/v1"

	"burnish/workflows/contract"
)

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	require.InDelta(t, 2.5, median(values), 1e-9)
	require.InDelta(t, 1, quantile(values, 0), 1e-9)
	require.InDelta(t, 4, quantile(values, 1), 1e-9)
	require.InDelta(t, 0, median(nil), 1e-9)
	require.Equal(t, []float64{4, 1, 3, 2}, values, "the caller's order stays")
}

// A bound is broken only by more than the noise, and by enough measurements.
func TestVerdict(t *testing.T) {
	around := func(center float64, n int) []float64 {
		var all []float64
		for i := range n {
			all = append(all, center*(1+0.1*float64(i%5-2)))
		}
		return all
	}
	cases := []struct {
		name     string
		factor   float64
		n        int
		expected verdict
	}{
		{"well within", 1.00, 200, holds},
		{"beyond, but noisy", 1.16, 40, unsure},
		{"well beyond", 1.60, 200, broken},
		{"well beyond in each of a few", 1.60, 5, broken},
		{"well beyond, but too few", 1.60, 3, unsure},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := compared("x", "ms", around(100*c.factor, c.n), around(100, c.n))
			require.Equal(t, c.expected, f.ratioAtMost(1.15).Verdict, "%+v", f)
		})
	}
	rate := func(product ...float64) verdict {
		return compared("x", "/s", product, around(10, len(product))).ratioAtLeast(1.1).Verdict
	}
	require.Equal(t, broken, rate(8, 8, 8, 8))
	require.Equal(t, unsure, rate(8, 8, 8))
	require.Equal(t, unsure, rate(8, 8, 8, 13))
	require.Equal(t, broken, single("x", "KiB", 49).atMost(48).Verdict)
	require.Equal(t, holds, single("x", "KiB", 48).atMost(48).Verdict)
	require.Equal(t, broken, single("x", "", 9).atLeast(10).Verdict)
}

// Beyond a baseline counts what is beyond the noise of both.
func TestBeyond(t *testing.T) {
	times := func(ms float64) (all []float64) {
		for range manyRounds {
			all = append(all, ms)
		}
		return all
	}
	require.Equal(t, holds, beyond("x", times(60), times(43), 50).Verdict)
	require.Equal(t, broken, beyond("x", times(113), times(43), 50).Verdict)
	require.Equal(t, unsure, beyond("x", times(113)[:3], times(43)[:3], 50).Verdict)
}

// Each measurement is taken once a round, in random order, and its values are kept by name.
func TestInterleave(t *testing.T) {
	var order []string
	measure := func(name string) measurement {
		return func(context.Context) (values, error) {
			order = append(order, name)
			return values{"n": float64(len(order))}, nil
		}
	}
	got, err := interleave(t.Context(), 20, measure("a"), measure("b"))
	require.NoError(t, err)
	require.Equal(t, []int{20, 20}, []int{len(got[0]["n"]), len(got[1]["n"])})
	require.Contains(t, order[:20], "b")
	_, err = interleave(t.Context(), 1, func(context.Context) (values, error) { return nil, context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
}

func TestTable(t *testing.T) {
	r := result{Notes: []string{"a note"}}
	r.Figures = append(r.Figures,
		compared("slow", "ms", []float64{118.04}, []float64{12.345}).ratioAtMost(1.15),
		single("few", "", 4).atMost(3))
	require.Equal(t, []string{"few"}, r.broken())
	var table, text bytes.Buffer
	require.NoError(t, r.writeTable(&table))
	require.Equal(t, `a note

measure  product  baseline  ratio  noise      bound         
slow     118 ms   12.3 ms   9.56   9.56–9.56  ratio ≤ 1.15  unsure
few      4                                    ≤ 3           FAIL
`, table.String())
	require.NoError(t, r.writeJSON(&text))
	require.Contains(t, text.String(), `"verdict": "FAIL"`)
}

// Turnovers are counted whole, from bind to bind, wherever the run began.
func TestFootprint(t *testing.T) {
	event := func(kind enumspb.EventType) *historypb.HistoryEvent { return &historypb.HistoryEvent{EventType: kind} }
	accepted := func(name string) *historypb.HistoryEvent {
		e := event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{
			WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
				AcceptedRequest: &updatepb.Request{Input: &updatepb.Input{Name: name}},
			},
		}
		return e
	}
	scheduled := event(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	upsert := event(enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES)
	turnover := []*historypb.HistoryEvent{
		accepted(contract.VerbBind.Update()), scheduled, upsert,
		accepted(contract.VerbUnbind.Update()), upsert, scheduled, scheduled,
	}
	run := []*historypb.HistoryEvent{event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED),
		accepted(contract.VerbUnbind.Update()), scheduled}
	for range 3 {
		run = append(run, turnover...)
	}
	f, turnovers := footprintOf(run)
	require.Equal(t, 2, turnovers)
	require.InDelta(t, 7, f.events, 1e-9)
	require.InDelta(t, 3, f.activities, 1e-9)
	require.InDelta(t, 2, f.upserts, 1e-9)
	require.Error(t, checkBaseline(f))
	require.NoError(t, checkBaseline(footprint{activities: 5, upserts: 5}))
	_, turnovers = footprintOf(run[:5])
	require.Zero(t, turnovers, "one bind is no whole turnover")
}
