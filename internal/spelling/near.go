// Package spelling finds what an operator may have meant.
package spelling

import (
	"slices"
	"strings"
)

// maxDistance is how many changed characters a typing error has at most.
const maxDistance = 2

// Near gives the known words that are as near to a word as any, within a typing error or as
// its continuation, sorted; none if nothing is near.
func Near(word string, known []string) []string {
	word = strings.ToLower(word)
	var found []string
	best := maxDistance
	for _, k := range known {
		d := Distance(word, strings.ToLower(k))
		if len(word) > 2 && strings.HasPrefix(strings.ToLower(k), word) {
			d = min(d, maxDistance)
		}
		if d >= min(len(word), len(k)) { // nothing of it is left
			continue
		}
		switch {
		case d < best:
			best, found = d, []string{k}
		case d == best:
			found = append(found, k)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Distance counts the characters to insert, delete, replace or swap with the next one.
func Distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		next := make([]int, len(y)+1)
		next[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(y)]
}
