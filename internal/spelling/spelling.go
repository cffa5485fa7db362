// Package spelling finds what an operator may have meant.
package spelling

import "strings"

// Distance is how many letters must be added, removed or replaced to make one text of the
// other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Nearest is the known name that is spelled most like name: it differs in a third of its
// letters at most, or is longer by whole words. "" if there is none.
func Nearest(name string, known []string) string {
	nearest, least := "", len(name)/3+1
	for _, k := range known {
		if d := Distance(name, k); d < least {
			nearest, least = k, d
		}
	}
	if nearest != "" {
		return nearest
	}
	for _, k := range known {
		if strings.HasPrefix(k, name+"_") || strings.HasSuffix(k, "_"+name) {
			return k
		}
	}
	return ""
}
