package nvmecli

import (
	"fmt"
	"regexp"
	"strconv"
)

// Command is one admin command of NVMe. It is sent with `nvme admin-passthru`, which has taken
// the same options and printed the same answer since version 1.12; what the commands with a
// name of their own print differs by version.
type Command struct {
	Opcode uint8
	NSID   uint32
	// CDW are the command's dwords 10 to 15.
	CDW [6]uint32
	// Receives is how many bytes the controller returns, Sends how many it takes from the
	// standard input. At most one of them is not 0.
	Receives, Sends int
}

// changeTimeout is how long the kernel waits for a command that changes the drive: longer than
// its default, because some drives take minutes to manage their namespaces.
const changeTimeout = 120_000 // milliseconds

// Args are the arguments of nvme for a controller's node. A command that changes the drive gets
// more time.
func (c Command) Args(node string, changes bool) []string {
	args := []string{"admin-passthru", node, fmt.Sprintf("--opcode=0x%02x", c.Opcode)}
	if c.NSID != 0 {
		args = append(args, fmt.Sprintf("--namespace-id=0x%x", c.NSID))
	}
	for i, dword := range c.CDW {
		if dword != 0 {
			args = append(args, fmt.Sprintf("--cdw%d=0x%x", 10+i, dword))
		}
	}
	switch {
	case c.Receives > 0:
		args = append(args, "--data-len="+strconv.Itoa(c.Receives), "--read", "--raw-binary")
	case c.Sends > 0:
		args = append(args, "--data-len="+strconv.Itoa(c.Sends), "--write")
	}
	if changes {
		args = append(args, "--timeout="+strconv.Itoa(changeTimeout))
	}
	return args
}

// Received finds in the output of nvme the bytes that the controller returned: the last
// c.Receives. Faults: tool_output_invalid.
func (c Command) Received(stdout []byte) ([]byte, error) {
	if len(stdout) < c.Receives || len(stdout) > MaxOutput {
		return nil, invalid(fmt.Sprintf("nvme admin-passthru (opcode 0x%02x)", c.Opcode),
			"%d bytes of output instead of %d: %s", len(stdout), c.Receives, quoted(string(stdout)))
	}
	return stdout[len(stdout)-c.Receives:], nil
}

var resultLine = regexp.MustCompile(`(?m)result: ?(?:0x)?([0-9a-fA-F]{1,8})\s*$`)

// ParseResult reads dword 0 of a completion, which nvme prints of a command without data.
// Faults: tool_output_invalid.
func ParseResult(output []byte) (uint32, error) {
	output = output[:min(len(output), MaxOutput)]
	found := resultLine.FindSubmatch(output)
	if found == nil {
		return 0, invalid("nvme admin-passthru", "no result in %s", quoted(string(output)))
	}
	n, err := strconv.ParseUint(string(found[1]), 16, 32)
	if err != nil {
		return 0, invalid("nvme admin-passthru", "the result %s: %v", found[1], err)
	}
	return uint32(n), nil
}
