package clean

import (
	"fmt"
	"strconv"
	"strings"

	"burnish/internal/device"
)

// Sampling reads Policy.Verify: of "sample:N" the N blocks of which one is read, of
// "full", or nothing, 1.
func Sampling(verify string) (int64, error) {
	if verify == "" || verify == "full" {
		return 1, nil
	}
	text, ok := strings.CutPrefix(verify, "sample:")
	n, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil || n < 1 {
		return 0, &device.Fault{
			Class: device.NeedsOperator, Code: device.CodeInvalidSetting,
			Message: fmt.Sprintf("verify %q is neither full nor sample:N", verify), Remedy: "correct BURNISH_VERIFY",
		}
	}
	return n, nil
}
