package logs

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// escaper writes lines in which every character that a terminal would not show as itself is
// escaped as in JSON: slog's handler of JSON escapes those of ASCII only, and the other one
// not a delete. In JSON the values stay the same, because such characters only stand within
// strings.
type escaper struct{ out io.Writer }

// Write writes one line.
func (e escaper) Write(line []byte) (int, error) {
	if _, err := e.out.Write(escape(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func escape(line []byte) []byte {
	if bytes.IndexFunc(line, hidden) < 0 {
		return line
	}
	var b bytes.Buffer
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		switch {
		case !hidden(r):
			b.Write(line[:size])
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		line = line[size:]
	}
	return b.Bytes()
}

// hidden says that a terminal does not show the character as itself. The end of the line is
// the handler's.
func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
