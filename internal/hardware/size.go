package hardware

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the suffixes that ParseSize accepts, longest first.
var units = []struct {
	ending string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1},
}

// ParseSize reads a number of bytes as operators write it: "64MiB", "4096" or "4096B".
// Only binary units are allowed, because MB is ambiguous.
func ParseSize(text string) (int64, error) {
	number, factor := text, int64(1)
	for _, unit := range units {
		if rest, found := strings.CutSuffix(text, unit.ending); found {
			number, factor = strings.TrimSpace(rest), unit.bytes
			break
		}
	}
	size, err := strconv.ParseInt(number, 10, 64)
	if err != nil || size <= 0 || number[0] == '+' {
		return 0, fmt.Errorf("%q is not a valid size: want a positive number of bytes, KiB, MiB, GiB or TiB, such as 64MiB",
			text)
	}
	if size > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is larger than any device", text)
	}
	return size * factor, nil
}

// FormatSize writes size in the largest unit that divides it, for ParseSize to read.
func FormatSize(size int64) string {
	best := units[len(units)-1]
	for _, unit := range units {
		if size > 0 && size%unit.bytes == 0 && unit.bytes > best.bytes {
			best = unit
		}
	}
	return strconv.FormatInt(size/best.bytes, 10) + best.ending
}
