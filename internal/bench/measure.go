package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// laps are the turnovers of one side in one measurement.
type laps struct{ bind, whole []float64 } // milliseconds

func (l *laps) add(x lap) {
	l.bind = append(l.bind, float64(x.bind)/float64(time.Millisecond))
	l.whole = append(l.whole, float64(x.whole)/float64(time.Millisecond))
}

// latency turns one device a side over, one at a time. The sides take turns, in a new
// order each time, so that what else the machine does meets all of them alike.
func latency(ctx context.Context, sides []*side, ids []string, rounds int) ([]laps, error) {
	all := make([]laps, len(sides))
	for range rounds {
		for _, i := range rand.Perm(len(sides)) {
			l, err := sides[i].cycle(ctx, ids[i])
			if err != nil {
				return nil, err
			}
			all[i].add(l)
		}
	}
	return all, nil
}

// load is one round of many devices at once.
type load struct {
	perSecond float64
	// Processor time a turnover, in milliseconds.
	server, workers float64
}

// throughput turns the fleet of each side over until a budget of turnovers is spent,
// side by side and round by round.
func throughput(ctx context.Context, srv *server, sides []*side, fleets [][]string, rounds, cycles int) ([][]load, error) {
	all := make([][]load, len(sides))
	for range rounds {
		for _, i := range rand.Perm(len(sides)) {
			l, err := rush(ctx, srv, sides[i], fleets[i], cycles)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], l)
		}
	}
	return all, nil
}

func rush(ctx context.Context, srv *server, s *side, fleet []string, cycles int) (load, error) {
	usage := func() (server, workers time.Duration, err error) {
		server, err = srv.cpu()
		workers, err2 := s.workers.cpu()
		return server, workers, errors.Join(err, err2)
	}
	server, workers, err := usage()
	if err != nil {
		return load{}, err
	}
	began := time.Now()
	var taken atomic.Int64
	err = together(len(fleet), func(i int) error {
		for taken.Add(1) <= int64(cycles) {
			if _, err := s.cycle(ctx, fleet[i]); err != nil {
				return err
			}
		}
		return nil
	})
	took := time.Since(began)
	server2, workers2, err2 := usage()
	if err := errors.Join(err, err2); err != nil {
		return load{}, err
	}
	each := float64(cycles) * float64(time.Millisecond)
	return load{
		perSecond: float64(cycles) / took.Seconds(),
		server:    float64(server2-server) / each, workers: float64(workers2-workers) / each,
	}, nil
}

// together runs do n times at once; it returns when all have ended.
func together(n int, do func(i int) error) error {
	failed := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { failed[i] = do(i) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// quantile is that of unsorted values, by the nearest rank.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// ratios are those of values that were measured side by side.
func ratios(product, baseline []float64) []float64 {
	var r []float64
	for i := range product {
		r = append(r, product[i]/baseline[i])
	}
	return r
}
