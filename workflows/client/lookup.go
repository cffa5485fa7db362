package client

import (
	"context"
	"sync"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
)

const (
	// maxLookups is how many devices one request looks up at most.
	maxLookups = 50
	// lookupPause is the least time between two requests. Temporal allows a namespace ten
	// listing requests a second unless it is configured otherwise: two kinds of lookups
	// leave some of them to others.
	lookupPause = 250 * time.Millisecond
)

// lookups finds devices in the server's listing by the values of one attribute. Those that
// arrive while a request is under way are looked up by the next one, all together: a fleet
// that is enrolled at once needs more lookups than Temporal allows requests.
type lookups struct {
	query func(values []string) string
	value func(Execution) string // of the attribute

	mu      sync.Mutex
	waiting []*lookup
	asking  bool
}

// lookup waits for its answer. found belongs to it from then on.
type lookup struct {
	value    string
	found    []Execution
	answered chan error
}

// find returns the listed runs with a value. The request begins after the call.
func (l *lookups) find(ctx context.Context, c *Client, value string) ([]Execution, error) {
	mine := &lookup{value: value, answered: make(chan error, 1)}
	l.mu.Lock()
	l.waiting = append(l.waiting, mine)
	if !l.asking {
		l.asking = true
		// Each request is for several callers: the end of one ends only its own wait.
		go l.answerAll(context.WithoutCancel(ctx), c)
	}
	l.mu.Unlock()
	select {
	case err := <-mine.answered:
		return mine.found, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answerAll answers lookups until none waits.
func (l *lookups) answerAll(ctx context.Context, c *Client) {
	for {
		l.mu.Lock()
		n := min(len(l.waiting), maxLookups)
		if n == 0 {
			l.asking = false
			l.mu.Unlock()
			return
		}
		batch := l.waiting[:n:n]
		l.waiting = l.waiting[n:]
		l.mu.Unlock()
		err := l.answer(ctx, c, batch)
		for _, each := range batch {
			each.answered <- err
		}
		<-time.After(lookupPause)
	}
}

// answer looks up a batch. The server's comparison is rough (see anyOf): each run goes to
// those lookups whose value it really has.
func (l *lookups) answer(ctx context.Context, c *Client, batch []*lookup) error {
	var values []string
	by := map[string][]*lookup{}
	for _, each := range batch {
		value := stored(each.value)
		if by[value] == nil {
			values = append(values, each.value)
		}
		by[value] = append(by[value], each)
	}
	return c.pages(ctx, l.query(values), func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		for _, info := range infos {
			e := executionOf(info, nil)
			for _, each := range by[l.value(e)] {
				each.found = append(each.found, e)
			}
		}
		return false, nil
	})
}
