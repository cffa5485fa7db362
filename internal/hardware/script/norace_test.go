//go:build !race

package script

const slowStart = false
