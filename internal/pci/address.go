package pci

import (
	"encoding/json"
	"errors"
	"maps"
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

// hexadecimal reads a number as Nova does: it accepts blanks around it, a leading 0x,
// capitals and missing leading zeroes. The result has width digits in lower case.
func hexadecimal(text string, width int, largest uint64) (digits, why string) {
	trimmed := strings.ToLower(strings.TrimSpace(text))
	n, err := strconv.ParseUint(strings.TrimPrefix(trimmed, "0x"), 16, 64)
	switch {
	case err != nil && !isDigits(strings.TrimPrefix(trimmed, "0x")):
		return "", strconv.Quote(text) + " is not a hexadecimal number"
	case err != nil || n > largest:
		return "", strconv.Quote(text) + " is more than " + strings.ToUpper(strconv.FormatUint(largest, 16))
	}
	digits = strconv.FormatUint(n, 16)
	return strings.Repeat("0", max(width-len(digits), 0)) + digits, ""
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789abcdef") == ""
}

// splitAddress splits domain:bus:slot.function. Fewer fields are aligned to the right;
// a missing field is "".
func splitAddress(text string) (fields pciAddress, why string) {
	before, function, _ := strings.Cut(text, ".")
	left := strings.Split(before, ":")
	if len(left) > 3 {
		return pciAddress{}, strconv.Quote(text) + " has more than three fields before the function; it must be " +
			"domain:bus:slot.function"
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
			return pciAddress{},
				invalid(field, "%q is not a PCI address: %s %s; it must be domain:bus:slot.function, such as 0000:01:00.0",
					text, p.name, why)
		}
		fields[i] = digits
	}
	return fields, nil
}

// criterion is the address of a spec.
type criterion interface {
	// any says that every device matches, also one without an address.
	any() bool
	// single says that it names one address by all four fields.
	single() bool
	match(pciAddress) bool
}

// glob is an address given as a string: each field is a number, or the wildcard.
type glob pciAddress

var anyAddress = glob{wildcard, wildcard, wildcard, wildcard}

func parseGlob(text string) (glob, error) {
	fields, why := splitAddress(text)
	if why != "" {
		return glob{}, invalid("address", "%s", why)
	}
	for i, p := range parts {
		// In Nova a blank function does not mean any, unlike a blank field before it.
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

// expressions is an address given as an object: a regular expression for each field;
// nil matches any value.
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
	for _, key := range slices.Sorted(maps.Keys(given)) {
		// Nova ignores it, so the spec would match more devices than intended.
		return nil, invalid("address."+quoteKey(key), "is unknown: must be one of domain, bus, slot, function")
	}
	// Only a complete address is the name of a device in sysfs, where Nova finds it.
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

// prefix compiles an expression that must match at the beginning of a field, not all of
// it. Expressions that Python and Go read differently are refused, so that a spec never
// matches a device here that it does not match in Nova.
func prefix(field, text string) (*regexp.Regexp, error) {
	if why := notPortable(text); why != "" {
		return nil, invalid(field, "%q %s", text, why)
	}
	// Without the parentheses first: a)|(b is valid only within them.
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, notValid(field, text, err)
	}
	if repeatsEmptyMatch(tree) {
		return nil, invalid(field, "%q repeats an expression of no length, such as $*; Python refuses it", text)
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
	return invalid(field, "%q is not a valid expression%s", text, why)
}

// notPortable says which part of an expression Python refuses or reads differently.
func notPortable(text string) string {
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, `\`):
			if i++; i == len(text) {
				return "ends in a lone \\"
			}
			if c := text[i]; isLetter(c) && !strings.ContainsRune("dDsSwWbBAafnrtvx", rune(c)) || '0' <= c && c <= '9' {
				return "has " + rest[:2] + ", which Python and Go read differently"
			}
			if strings.HasPrefix(rest, `\x{`) {
				return `has \x{, which Python and Go read differently`
			}
		case strings.HasPrefix(rest, "[:"):
			return "has [:, which Python and Go read differently"
		case strings.HasPrefix(rest, "{,"):
			return "has {, which Python and Go read differently; write {0,"
		case strings.HasPrefix(rest, "(?") && !strings.HasPrefix(rest, "(?:"):
			if i == 0 && strings.HasPrefix(rest, "(?i)") {
				continue
			}
			return "has a group that begins with (?, which Python and Go read differently"
		}
	}
	return ""
}

// repeatsEmptyMatch finds a repeated anchor or word boundary.
func repeatsEmptyMatch(tree *syntax.Regexp) bool {
	switch tree.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		switch tree.Sub[0].Op {
		case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary,
			syntax.OpNoWordBoundary:
			return true
		}
	}
	return slices.ContainsFunc(tree.Sub, repeatsEmptyMatch)
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
