package api

import (
	"cmp"
	"context"

	"burnish/workflows/contract"
)

// showHistory is GET …/history.
func showHistory(ctx context.Context, c *call) (any, error) {
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	v, unanswered, err := c.read(ctx)
	if err := cmp.Or(err, unanswered); err != nil { // only the workflow knows its history
		return nil, err
	}
	return contract.HistoryOf(v), nil
}
