package nvmecli

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"burnish/internal/device"
)

// Version is the version of nvme-cli.
type Version struct {
	Major, Minor int
	// Text is the version as printed: "2.3", "3.0-rc.1".
	Text string
}

// MinVersion is the oldest version that is known to work.
var MinVersion = Version{Major: 1, Minor: 12, Text: "1.12"}

var versionLine = regexp.MustCompile(`(?m)^nvme version ((\d{1,4})\.(\d{1,4})[!-~]{0,40})`)

// ParseVersion reads the output of `nvme version`. Faults: tool_output_invalid.
func ParseVersion(output []byte) (Version, error) {
	if len(output) > MaxOutput {
		return Version{}, invalid("nvme version", "more than %d bytes of output", MaxOutput)
	}
	found := versionLine.FindSubmatch(output)
	if found == nil {
		return Version{}, invalid("nvme version", "no version in %s", quoted(string(output)))
	}
	major, _ := strconv.Atoi(string(found[2])) // at most four digits
	minor, _ := strconv.Atoi(string(found[3]))
	return Version{Major: major, Minor: minor, Text: string(found[1])}, nil
}

// Check refuses a version older than MinVersion. Faults: tool_too_old.
func (v Version) Check() error {
	if cmp.Or(cmp.Compare(v.Major, MinVersion.Major), cmp.Compare(v.Minor, MinVersion.Minor)) >= 0 {
		return nil
	}
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeToolTooOld,
		Message: fmt.Sprintf("nvme-cli is version %s, and %s or later is needed", v.Text, MinVersion.Text),
		Remedy:  "install a newer nvme-cli on this host",
	}
}

// Tried are the versions with which each verb, its refusal and a whole clean are tested.
func Tried() []string { return []string{"1.12", "2.3", "2.13", "2.16"} }

// Untried reports whether the driver was never tested with this version. It may well work: all
// versions since MinVersion have sent a command and printed its answer in the same way.
func (v Version) Untried() bool {
	return !slices.Contains(Tried(), fmt.Sprintf("%d.%d", v.Major, v.Minor))
}

// Status is a controller's answer to a command: status type and code, without the bits More
// and Do Not Retry.
type Status uint16

// The statuses that callers check (NVM Express Base Specification, Status Code).
const (
	StatusInvalidOpcode      Status = 0x01
	StatusInvalidField       Status = 0x02
	StatusInvalidNamespace   Status = 0x0b
	StatusSanitizeFailed     Status = 0x1c
	StatusSanitizeInProgress Status = 0x1d
	// The firmware was committed, although nvme-cli fails. It runs after a reset of the
	// controller or of the subsystem.
	StatusNeedsReset           Status = 0x10b
	StatusNeedsSubsystemReset  Status = 0x110
	StatusNeedsControllerReset Status = 0x111
	// The image was not activated: it takes too long to do so without a reset, or the
	// controller does not activate this image.
	StatusTimeViolation        Status = 0x112
	StatusActivationProhibited Status = 0x113
	StatusInvalidFirmwareImage Status = 0x107
)

var (
	statusLine = regexp.MustCompile(`(?m)^NVMe status:.*$`)
	statusCode = regexp.MustCompile(`\(0x([0-9a-fA-F]{1,8})\)`)
	// statusJSON is how 3.0 refuses where it prints JSON.
	statusJSON = regexp.MustCompile(`^\s*\{\s*"status: ([0-9]{1,10})"\s*:`)
)

// ParseStatus finds the controller's status in what nvme-cli said. The text differs between
// versions, so only the hex in the line's last parentheses counts, or the number in the JSON of
// 3.0. ok is false if the controller did not answer, because the error is the host's.
func ParseStatus(said []byte) (Status, bool) {
	if len(said) > MaxOutput {
		return 0, false
	}
	digits, base := "", 16
	if codes := statusCode.FindAllSubmatch(statusLine.Find(said), -1); len(codes) > 0 {
		digits = string(codes[len(codes)-1][1])
	} else if code := statusJSON.FindSubmatch(said); code != nil {
		digits, base = string(code[1]), 10
	}
	raw, err := strconv.ParseUint(digits, base, 32)
	if err != nil {
		return 0, false
	}
	return Status(raw & 0x7ff), true
}
