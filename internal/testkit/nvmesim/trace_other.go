//go:build !amd64

package nvmesim

import (
	"errors"
	"os"
)

// traceable says that this processor's registers are known here.
const traceable = false

type tracee int

func (tracee) read(uint64, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func (tracee) write(uint64, []byte) error { return errors.ErrUnsupported }

func trace(_, _ []string, _, _, _ *os.File, _ answerer) (int, error) {
	return 0, errors.ErrUnsupported
}
