package client

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/workflows/contract"
)

const (
	// rangeRuns is how many runs a range of UUIDs is chosen to hold at most. A range with
	// more than pageSize of them is narrowed.
	rangeRuns = 900
	// runChange is how long a listing may take to show the new run of a device that
	// continued as new. Until then the ended run stands for it.
	runChange = 30 * time.Second
	// maxTotals bounds the estimates that are kept, one for each filter.
	maxTotals = 100
	// firstUUID and lastUUID are the ends of the order.
	firstUUID = "00000000-0000-0000-0000-000000000000"
	lastUUID  = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

// Page returns the devices that the filter selects in the order of their UUIDs: at most
// limit of them, from the first one after the UUID after ("" for the start). more: others
// follow. A device that cannot be read has Err set.
//
// Temporal's SQL stores cannot order a listing, but they compare UUIDs, which are uniform
// hashes: a page is a range of UUIDs that holds about as many devices as are wanted, read
// whole and sorted here. A device whose workflow runs all the time is on exactly one page,
// also while it continues as new.
func (c *Client) Page(ctx context.Context, f Filter, after string, limit int) (page []Execution, more bool, err error) {
	for len(page) <= limit && after != lastUUID {
		var found []Execution
		if found, after, err = c.nextRange(ctx, f, after, limit+1-len(page)); err != nil {
			return nil, false, err
		}
		page = append(page, found...)
	}
	return page[:min(limit, len(page))], len(page) > limit, nil
}

// nextRange reads a range of UUIDs after one that holds about as many devices as wanted, and
// returns them in order, and the last UUID of the range.
func (c *Client) nextRange(ctx context.Context, f Filter, after string, want int) (found []Execution, end string, err error) {
	key := f.Query()
	total, known := c.totals.of(key)
	if !known {
		if total, err = c.estimate(ctx, f, after); err != nil {
			return nil, "", err
		}
	}
	// Three standard deviations more, so that few pages need a second range; but of many runs
	// a short second range costs less than those that are read in vain.
	deviation := math.Sqrt(float64(want))
	runs := float64(want) + 3*deviation + 2
	if want > 200 {
		runs = min(float64(want)-deviation, rangeRuns)
	}
	for width := runs / total; ; width /= 4 {
		end = keyAfter(after, width)
		share, bounds := shareOf(after, end), between(after, end)
		if end == lastUUID && total <= rangeRuns {
			// All that the filter selects is little: Temporal finds it by the filter's own index.
			share, bounds = 1, ""
		}
		infos, complete, err := c.runsIn(ctx, joined(f.recentQuery(time.Now()), bounds), share <= leastShare)
		if err != nil {
			return nil, "", err
		}
		total = c.totals.learn(key, total, share, len(infos))
		if complete {
			found, err := c.newestOf(ctx, f, after, infos)
			return found, end, err
		}
		width = min(width, share)
	}
}

// runsIn reads the runs that a query finds: all of them, or complete is false.
func (c *Client) runsIn(ctx context.Context, query string, all bool) (infos []*workflowpb.WorkflowExecutionInfo, complete bool, err error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: pageSize}
	for {
		page, err := c.page(ctx, request)
		if err != nil {
			return nil, false, err
		}
		infos = append(infos, page.GetExecutions()...)
		request.NextPageToken = page.GetNextPageToken()
		if complete = len(request.NextPageToken) == 0; complete || !all {
			return infos, complete, nil
		}
	}
}

// newestOf returns the devices of these runs after a UUID, sorted by UUID, each by its newest
// run.
func (c *Client) newestOf(ctx context.Context, f Filter, after string, infos []*workflowpb.WorkflowExecutionInfo) ([]Execution, error) {
	newest := newestRuns(infos)
	maps.DeleteFunc(newest, func(_ string, e Execution) bool { return e.Status.UUID <= after })
	// The new run of such a device is not listed yet, or the filter does not select it.
	var ended []string
	for _, e := range newest {
		if !e.Running {
			ended = append(ended, e.Status.UUID)
		}
	}
	for some := range slices.Chunk(ended, 200) {
		query := joined(recent(time.Now()), anyOf(contract.AttrUUID.GetName(), some))
		var again []*workflowpb.WorkflowExecutionInfo
		err := c.pages(ctx, query, func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
			again = append(again, infos...)
			return false, nil
		})
		if err != nil {
			return nil, err
		}
		for _, e := range newestRuns(again) {
			Newest(newest, e)
		}
	}
	var found []Execution
	for _, e := range newest {
		if (e.Running || e.continued) && (e.Err != nil || !e.Absent() && f.Selects(e.Status)) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b Execution) int { return strings.Compare(a.Status.UUID, b.Status.UUID) })
	return found, nil
}

// newestRuns returns the newest of these runs of each device, by name.
func newestRuns(infos []*workflowpb.WorkflowExecutionInfo) map[string]Execution {
	newest := map[string]Execution{}
	for _, info := range infos {
		Newest(newest, executionOf(info, nil))
	}
	return newest
}

// recent selects the devices' workflows that run, and those that ended a moment ago: one
// that continued as new may not be listed as running yet.
func recent(now time.Time) string {
	return fmt.Sprintf("WorkflowType = %s AND (ExecutionStatus = 'Running' OR CloseTime > %s)",
		literal(contract.WorkflowDeviceLifecycle), literal(now.Add(-runChange).UTC().Format(time.RFC3339)))
}

// between selects the UUIDs of a range. They are all of one length and in lower case, so
// that every collation of a database orders them alike.
func between(after, end string) string {
	from := " > " + literal(after)
	if after == "" {
		from = " >= " + literal(firstUUID)
	}
	return contract.AttrUUID.GetName() + from + " AND " + contract.AttrUUID.GetName() + " <= " + literal(end)
}

// estimate counts in a sixteenth of all UUIDs how many runs the filter selects in all.
func (c *Client) estimate(ctx context.Context, f Filter, after string) (float64, error) {
	end := keyAfter(after, 1./16)
	count, err := c.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: joined(f.recentQuery(time.Now()), between(after, end)),
	})
	if err != nil {
		return 0, err
	}
	return c.totals.learn(f.Query(), 1, shareOf(after, end), int(count.GetCount())), nil
}

// leastShare is the narrowest range: of UUIDs with the same first 64 bits.
var leastShare = math.Ldexp(1, -64)

// leading returns the first 64 bits of a UUID; 0 for "".
func leading(uuid string) (bits uint64) {
	digits := strings.ReplaceAll(uuid, "-", "")
	raw, err := hex.DecodeString(digits[:min(16, len(digits))])
	if err != nil {
		return 0
	}
	for _, b := range raw {
		bits = bits<<8 | uint64(b)
	}
	return bits
}

// shareOf is the share of all UUIDs that a range holds.
func shareOf(after, end string) float64 {
	return max(math.Ldexp(float64(leading(end)-leading(after)), -64), leastShare)
}

// keyAfter returns the last UUID of the range that holds this share of all, after a UUID.
func keyAfter(after string, share float64) string {
	from, width := leading(after), math.Ldexp(max(share, leastShare), 64)
	if width >= float64(math.MaxUint64-from) {
		return lastUUID
	}
	to := from + uint64(width)
	return fmt.Sprintf("%08x-%04x-%04x-ffff-ffffffffffff", to>>32, to>>16&0xffff, to&0xffff)
}

// totals are estimates of how many runs a filter selects.
type totals struct {
	mu  sync.Mutex
	all map[string]float64
}

func (t *totals) of(filter string) (float64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, ok := t.all[filter]
	return total, ok
}

// learn returns the estimate after so many runs were found in a share of all UUIDs. What is
// found in a large share counts more than what was estimated before.
func (t *totals) learn(filter string, total, share float64, runs int) float64 {
	seen := max(float64(runs), total*share)
	weight := seen / (seen + 20)
	if _, known := t.of(filter); !known {
		weight = 1
	}
	total += weight * (float64(max(runs, 1))/share - total)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) >= maxTotals {
		clear(t.all)
	}
	if t.all == nil {
		t.all = map[string]float64{}
	}
	t.all[filter] = total
	return total
}

// ByUUID returns the newest listed run of the device with a UUID, also one that ended. found is
// false if Temporal lists none: of a device that was just enrolled, or that was forgotten
// longer ago than it keeps ended runs.
func (c *Client) ByUUID(ctx context.Context, uuid string) (e Execution, found bool, err error) {
	newest := map[string]Execution{}
	query := joined("WorkflowType = "+literal(contract.WorkflowDeviceLifecycle), equals(contract.AttrUUID.GetName(), uuid))
	err = c.pages(ctx, query, func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		for name, run := range newestRuns(infos) {
			if run.Status.UUID == uuid {
				newest[name] = run
			}
		}
		// Temporal lists runs that have not ended first, and then the last to end.
		return len(newest) > 0, nil
	})
	if err != nil {
		return Execution{}, false, fmt.Errorf("find the device with UUID %s: %w", uuid, err)
	}
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		return newest[name], true, nil
	}
	return Execution{}, false, nil
}
