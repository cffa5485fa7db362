package main

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"burnish/internal/testkit/must"
)

// values are the results of one measurement by name, series those of all its rounds.
type (
	values map[string]float64
	series map[string][]float64
)

// measurement measures once.
type measurement func(ctx context.Context) (values, error)

// interleave takes all measurements in each round, in a new random order, so that whatever
// else the machine does affects all alike.
func interleave(ctx context.Context, rounds int, all ...measurement) ([]series, error) {
	results := make([]series, len(all))
	for i := range results {
		results[i] = series{}
	}
	for range rounds {
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

// took is the name of the only value of a measurement.
const took = "took"

// timed measures how many milliseconds something takes.
func timed(do func(ctx context.Context)) measurement {
	return func(ctx context.Context) (values, error) {
		began := time.Now()
		do(ctx)
		return values{took: milliseconds(time.Since(began))}, nil
	}
}

// warm takes all measurements a few times for nothing, and then interleaves them.
func warm(ctx context.Context, few, rounds int, all ...measurement) []series {
	must.Get(interleave(ctx, few, all...))
	return must.Get(interleave(ctx, rounds, all...))
}

// parallel runs do n times, so many at a time. It returns when all have ended, with the first of
// the errors: mostly they have one cause.
func parallel(atOnce, n int, do func(i int) error) error {
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i := range n {
		all.Go(func() error { return must.Try(func() { must.Do(do(i)) }) })
	}
	return all.Wait()
}

// collect is parallel for what has a result.
func collect[T any](atOnce, n int, do func(i int) T) []T {
	all := make([]T, n)
	must.Do(parallel(atOnce, n, func(i int) error { all[i] = do(i); return nil }))
	return all
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

// ratio is that of product to baseline with its noise, which is reliable only after enough
// rounds.
type ratio struct {
	value, low, high float64
	reliable         bool
}

// manyRounds are enough for the noise of a median; fewer must all agree, at least someRounds.
const (
	manyRounds = 30
	someRounds = 4
)

// ratioOf compares the values of the same rounds. Of many, that is the ratio of the medians with the
// 95 % interval of a bootstrap; of few, the median of the ratios between the least and the greatest.
func ratioOf(product, baseline []float64) ratio {
	if min(len(product), len(baseline)) >= manyRounds {
		return bootstrap(product, baseline)
	}
	var all []float64
	for i := range product {
		all = append(all, product[i]/baseline[i])
	}
	return ratio{value: median(all), low: slices.Min(all), high: slices.Max(all), reliable: len(all) >= someRounds}
}

func bootstrap(product, baseline []float64) ratio {
	const draws = 1000
	random := rand.New(rand.NewPCG(1, 1))
	drawn := func(values []float64) float64 {
		again := make([]float64, len(values))
		for i := range again {
			again[i] = values[random.IntN(len(values))]
		}
		return median(again)
	}
	var all []float64
	for range draws {
		all = append(all, drawn(product)/drawn(baseline))
	}
	return ratio{value: median(product) / median(baseline), low: quantile(all, 0.025), high: quantile(all, 0.975),
		reliable: true}
}
