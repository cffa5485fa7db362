package main

import (
	"cmp"
	"context"
	"errors"
	"math"
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

// box is how much is measured: at least the fewest rounds, and then until the time is
// over or the most are done.
type box struct {
	fewest, most int
	time         time.Duration
}

// rounds counts the rounds that fit into the box.
func (b box) rounds(yield func(int) bool) {
	began := time.Now()
	for n := 0; n < b.most && (n < b.fewest || time.Since(began) < b.time); n++ {
		if !yield(n) {
			return
		}
	}
}

// latency turns one device a side over, one at a time. The sides take turns, in a new
// order each time, so that what else the machine does meets all of them alike; those
// behind the first two, which no bound is about, come every fourth time only.
func latency(ctx context.Context, sides []*side, ids []string, b box) ([]laps, error) {
	all := make([]laps, len(sides))
	for n := range b.rounds {
		now := sides
		if n%4 > 0 {
			now = sides[:2]
		}
		for _, i := range rand.Perm(len(now)) {
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
// one side after the other and round by round.
func throughput(ctx context.Context, srv *server, sides []*side, fleets [][]string, b box, cycles int) ([][]load, error) {
	all := make([][]load, len(sides))
	for range b.rounds {
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

// together runs do n times at once; it returns when all have ended, with one of the
// errors: they mostly have one cause.
func together(n int, do func(i int) error) error {
	failed := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { failed[i] = do(i) })
	}
	all.Wait()
	return cmp.Or(failed...)
}

// quantile is that of unsorted values, between the two nearest ones where it is none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	whole, part := math.Modf(q * float64(len(sorted)-1))
	low := int(whole)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + part*(sorted[high]-sorted[low])
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// ratio is that of product to baseline, and what the noise leaves of it: it lies
// between low and high, which is sure only where there were enough measurements.
type ratio struct {
	value, low, high float64
	sure             bool
}

// ratioOf compares one quantile of both, with the 95 % interval of a bootstrap.
func ratioOf(product, baseline []float64, q float64) ratio {
	const draws = 1000
	random := rand.New(rand.NewPCG(1, 1))
	again := func(values []float64) []float64 {
		drawn := make([]float64, len(values))
		for i := range drawn {
			drawn[i] = values[random.IntN(len(values))]
		}
		return drawn
	}
	var all []float64
	for range draws {
		all = append(all, quantile(again(product), q)/quantile(again(baseline), q))
	}
	const enough = 30
	return ratio{
		value: quantile(product, q) / quantile(baseline, q), low: quantile(all, 0.025), high: quantile(all, 0.975),
		sure: min(len(product), len(baseline)) >= enough,
	}
}

// ratioOfRounds compares values of rounds that were measured side by side: the median
// of their ratios, between the least and the greatest.
func ratioOfRounds(product, baseline []float64) ratio {
	var all []float64
	for i := range product {
		all = append(all, product[i]/baseline[i])
	}
	const enough = 4
	return ratio{value: median(all), low: slices.Min(all), high: slices.Max(all), sure: len(all) >= enough}
}
