package pci

import (
	"encoding/json"
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// wildcard stands for any value of a whole field.
const wildcard = "*"

// part is one of the four fields of an address: its width and its largest value.
type part struct {
	name  string
	width int
	max   uint64
}

var parts = [4]part{{"domain", 4, 0xFFFF}, {"bus", 2, 0xFF}, {"slot", 2, 0x1F}, {"function", 1, 7}}

// pciAddress is an address in its four fields: hexadecimal, padded, lower case.
type pciAddress [4]string

// hexadecimal reads a number as Nova does: blanks around it, a leading 0x and capitals
// are taken, leading zeroes need not be there. It gives width digits in lower case.
func hexadecimal(text string, width int, largest uint64) (digits, why string) {
	trimmed := strings.ToLower(strings.TrimSpace(text))
	n, err := strconv.ParseUint(strings.TrimPrefix(trimmed, "0x"), 16, 64)
	switch {
	case err != nil && !isDigits(strings.TrimPrefix(trimmed, "0x")):
		return "", strconv.Quote(text) + " is no hexadecimal number"
	case err != nil || n > largest:
		return "", strconv.Quote(text) + " is more than " + strings.ToUpper(strconv.FormatUint(largest, 16))
	}
	digits = strconv.FormatUint(n, 16)
	return strings.Repeat("0", max(width-len(digits), 0)) + digits, ""
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789abcdef") == ""
}

// splitAddress takes domain:bus:slot.function apart. Fewer fields are aligned to the right;
// what is not there is "".
func splitAddress(text string) (fields pciAddress, why string) {
	before, function, _ := strings.Cut(text, ".")
	left := strings.Split(before, ":")
	if len(left) > 3 {
		return pciAddress{}, strconv.Quote(text) + " has more than three fields before the function; want domain:bus:slot.function"
	}
	copy(fields[3-len(left):3], left)
	fields[3] = function
	return fields, ""
}

// parseExact reads the address of one device.
func parseExact(field, text string) (pciAddress, error) {
	fields, why := splitAddress(text)
	if why != "" {
		return pciAddress{}, invalid(field, "%s", why)
	}
	for i, p := range parts {
		digits, why := hexadecimal(fields[i], p.width, p.max)
		if why != "" {
			return pciAddress{}, invalid(field, "%q is no PCI address: %s %s; want domain:bus:slot.function, as 0000:01:00.0", text, p.name, why)
		}
		fields[i] = digits
	}
	return fields, nil
}

// criterion is the address of a spec.
type criterion interface {
	// any says that every address matches, and so does a device without one.
	any() bool
	// single says that it names one address by all four fields.
	single() bool
	match(pciAddress) bool
}

// glob is a string address: each field a number, or any.
type glob pciAddress

var anyAddress = glob{wildcard, wildcard, wildcard, wildcard}

func parseGlob(text string) (glob, error) {
	fields, why := splitAddress(text)
	if why != "" {
		return glob{}, invalid("address", "%s", why)
	}
	for i, p := range parts {
		// A blank function is no any in Nova, unlike a blank field before it.
		if blank := strings.TrimSpace(fields[i]) == ""; fields[i] == "" || blank && i < 3 {
			fields[i] = wildcard
		}
		if strings.TrimSpace(fields[i]) == wildcard {
			fields[i] = wildcard
			continue
		}
		if fields[i], why = hexadecimal(fields[i], p.width, p.max); why != "" {
			if strings.Contains(why, wildcard) {
				why += "; * stands for a whole field only"
			}
			return glob{}, invalid("address", "%s %s", p.name, why)
		}
	}
	return glob(fields), nil
}

func (g glob) any() bool    { return g == anyAddress }
func (g glob) single() bool { return !slices.Contains(g[:], wildcard) }

func (g glob) match(at pciAddress) bool {
	for i, want := range g {
		if want != wildcard && want != at[i] {
			return false
		}
	}
	return true
}

// expressions is an object address: a regular expression for each field, nil is any.
type expressions struct {
	fields [4]*regexp.Regexp
	one    bool
}

func parseExpressions(text json.RawMessage) (*expressions, error) {
	given, err := object(text, "address")
	if err != nil {
		return nil, err
	}
	var e expressions
	var source pciAddress
	for i, p := range parts {
		value, ok := given[p.name]
		if !ok {
			continue
		}
		delete(given, p.name)
		field := "address." + p.name
		if source[i], err = parseString(field, value); err != nil {
			return nil, err
		}
		if e.fields[i], err = prefix(field, source[i]); err != nil {
			return nil, err
		}
	}
	for _, key := range sortedKeys(given) {
		// Nova would overlook it, and the spec would match more than was meant.
		return nil, invalid("address."+quoteKey(key), "is unknown; known are domain, bus, slot, function")
	}
	// Only a whole address names a device in sysfs, where Nova looks for it.
	if at, err := parseExact("address", source[0]+":"+source[1]+":"+source[2]+"."+source[3]); err == nil {
		e.one = at == source
	}
	return &e, nil
}

func (e *expressions) any() bool    { return e.fields == [4]*regexp.Regexp{} }
func (e *expressions) single() bool { return e.one }

func (e *expressions) match(at pciAddress) bool {
	for i, field := range e.fields {
		if field != nil && !field.MatchString(at[i]) {
			return false
		}
	}
	return true
}

// prefix compiles an expression that must match at the beginning of a field, and need
// not reach to its end. Python and Go read some expressions differently; those are
// refused, so that a spec never matches here what it does not match in Nova.
func prefix(field, text string) (*regexp.Regexp, error) {
	if why := notPortable(text); why != "" {
		return nil, invalid(field, "%q %s", text, why)
	}
	// By itself first: a)|(b becomes valid within parentheses.
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, notValid(field, text, err)
	}
	if repeatsEmptyMatch(tree) {
		return nil, invalid(field, "%q repeats what has no length, as $*; Python does not take it", text)
	}
	compiled, err := regexp.Compile(`\A(?:` + text + `)`)
	if err != nil {
		return nil, notValid(field, text, err)
	}
	return compiled, nil
}

func notValid(field, text string, err error) error {
	why := ""
	var fault *syntax.Error
	if errors.As(err, &fault) {
		why = ": " + fault.Code.String()
	}
	return invalid(field, "%q is no valid expression%s", text, why)
}

// notPortable says what in an expression Python does not know or reads otherwise.
func notPortable(text string) string {
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, `\`):
			if i++; i == len(text) {
				return "ends in a lone \\"
			}
			if c := text[i]; isLetter(c) && !strings.ContainsRune("dDsSwWbBAafnrtvx", rune(c)) || '0' <= c && c <= '9' {
				return "has " + rest[:2] + ", which is not the same everywhere"
			}
			if strings.HasPrefix(rest, `\x{`) {
				return `has \x{, which is not the same everywhere`
			}
		case strings.HasPrefix(rest, "[:"):
			return "has [:, which is not the same everywhere"
		case strings.HasPrefix(rest, "{,"):
			return "has {, which is not the same everywhere; write {0,"
		case strings.HasPrefix(rest, "(?") && !strings.HasPrefix(rest, "(?:"):
			if i == 0 && strings.HasPrefix(rest, "(?i)") {
				continue
			}
			return "has a group that begins with (? and is not the same everywhere"
		}
	}
	return ""
}

// repeatsEmptyMatch finds a repeated anchor or word boundary.
func repeatsEmptyMatch(tree *syntax.Regexp) bool {
	switch tree.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		switch tree.Sub[0].Op {
		case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
			return true
		}
	}
	return slices.ContainsFunc(tree.Sub, repeatsEmptyMatch)
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
