// Package spelling finds what an operator may have meant.
package spelling

import "strings"

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
