package main

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// timeBox bounds the rounds of a measurement: at least min, then until the time is over,
// at most max.
type timeBox struct {
	min, max int
	time     time.Duration
}

// exactly is n rounds.
func exactly(n int) timeBox { return timeBox{min: n, max: n} }

func (b timeBox) rounds(yield func(int) bool) {
	began := time.Now()
	for n := 0; n < b.max && (n < b.min || time.Since(began) < b.time); n++ {
		if !yield(n) {
			return
		}
	}
}

// values are the results of one measurement by name, series those of all its rounds.
type (
	values map[string]float64
	series map[string][]float64
)

// measurement measures once.
type measurement func(ctx context.Context) (values, error)

// interleave takes all measurements in each round, in a new random order, so that whatever
// else the machine does affects all alike.
func interleave(ctx context.Context, b timeBox, all ...measurement) ([]series, error) {
	results := make([]series, len(all))
	for i := range results {
		results[i] = series{}
	}
	for range b.rounds {
		for _, i := range rand.Perm(len(all)) {
			v, err := all[i](ctx)
			if err != nil {
				return nil, err
			}
			for name, value := range v {
				results[i][name] = append(results[i][name], value)
			}
		}
	}
	return results, nil
}

// everyNth takes a measurement in the first of n rounds and skips it in the others.
func everyNth(n int, m measurement) measurement {
	round := 0
	return func(ctx context.Context) (values, error) {
		round++
		if (round-1)%n != 0 {
			return nil, nil
		}
		return m(ctx)
	}
}

// parallel runs do n times concurrently. It returns when all have ended, with the first of
// the errors: mostly they have one cause.
func parallel(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// parallelAtMost is parallel with at most so many at a time.
func parallelAtMost(atOnce, n int, do func(i int) error) error {
	return parallel(atOnce, func(first int) error {
		for i := first; i < n; i += atOnce {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	})
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile interpolates between the two nearest of unsorted values.
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

// ratio is that of product to baseline with its confidence interval, which is reliable
// only after enough measurements.
type ratio struct {
	value, low, high float64
	reliable         bool
}

// quantileRatio compares one quantile, with the 95 % interval of a bootstrap.
func quantileRatio(product, baseline []float64, q float64) ratio {
	const draws = 1000
	random := rand.New(rand.NewPCG(1, 1))
	resample := func(values []float64) []float64 {
		drawn := make([]float64, len(values))
		for i := range drawn {
			drawn[i] = values[random.IntN(len(values))]
		}
		return drawn
	}
	var all []float64
	for range draws {
		all = append(all, quantile(resample(product), q)/quantile(resample(baseline), q))
	}
	const enough = 30
	return ratio{
		value: quantile(product, q) / quantile(baseline, q), low: quantile(all, 0.025), high: quantile(all, 0.975),
		reliable: min(len(product), len(baseline)) >= enough,
	}
}

// pairedRatio compares values of the same rounds: the median of their ratios, between the
// least and the greatest.
func pairedRatio(product, baseline []float64) ratio {
	var all []float64
	for i := range product {
		all = append(all, product[i]/baseline[i])
	}
	const enough = 4
	return ratio{value: median(all), low: slices.Min(all), high: slices.Max(all), reliable: len(all) >= enough}
}
