package pci

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// disk is what most of the tests match against.
const disk = `{"address": "0000:0a:00.1", "vendor_id": "8086", "product_id": "0a54"}`

func parsed(t *testing.T, text string) Device {
	t.Helper()
	d, err := ParseDevice([]byte(text))
	require.NoError(t, err, text)
	return d
}

// S2.7
func TestCriteriaOfASpec(t *testing.T) {
	for what, c := range map[string]struct {
		spec  string
		match bool
	}{
		"no criterion":                   {`{}`, true},
		"vendor":                         {`{"vendor_id": "8086"}`, true},
		"another vendor":                 {`{"vendor_id": "8087"}`, false},
		"vendor with 0x":                 {`{"vendor_id": "0x8086"}`, true},
		"vendor with 0X":                 {`{"vendor_id": "0X8086"}`, true},
		"vendor with blanks":             {`{"vendor_id": " 8086 "}`, true},
		"vendor is padded":               {`{"vendor_id": "86"}`, false},
		"vendor is any":                  {`{"vendor_id": "*"}`, true},
		"product":                        {`{"product_id": "0a54"}`, true},
		"product in capitals":            {`{"product_id": "0A54"}`, true},
		"product is padded":              {`{"product_id": "a54"}`, true},
		"product with zeroes before it":  {`{"product_id": "00000a54"}`, true},
		"another product":                {`{"product_id": "0a55"}`, false},
		"both":                           {`{"vendor_id": "8086", "product_id": "0a54"}`, true},
		"vendor, another product":        {`{"vendor_id": "8086", "product_id": "0a55"}`, false},
		"another vendor, product":        {`{"vendor_id": "8087", "product_id": "0a54"}`, false},
		"vendor, another address":        {`{"vendor_id": "8086", "address": "0b:00.*"}`, false},
		"another vendor, address":        {`{"vendor_id": "8087", "address": "0a:00.*"}`, false},
		"address":                        {`{"address": "0000:0a:00.1"}`, true},
		"address in capitals":            {`{"address": "0000:0A:00.1"}`, true},
		"address without zeroes":         {`{"address": "0:a:0.1"}`, true},
		"address with 0x":                {`{"address": "0x0:0xa:0.0x1"}`, true},
		"all of it any":                  {`{"address": "*:*:*.*"}`, true},
		"empty address":                  {`{"address": ""}`, true},
		"blank address":                  {`{"address": "  "}`, true},
		"a dot":                          {`{"address": "."}`, true},
		"any domain":                     {`{"address": "*:0a:00.1"}`, true},
		"no domain":                      {`{"address": "0a:00.1"}`, true},
		"blank domain":                   {`{"address": ":0a:00.1"}`, true},
		"blank domain and bus":           {`{"address": "::00.1"}`, true},
		"blank fields of blanks":         {`{"address": " : : 00 .1"}`, true},
		"slot alone":                     {`{"address": "00"}`, true},
		"slot alone, a bus it is not":    {`{"address": "0a"}`, false},
		"function alone":                 {`{"address": ".1"}`, true},
		"another function alone":         {`{"address": ".0"}`, false},
		"no function":                    {`{"address": "0000:0a:00"}`, true},
		"no function but its dot":        {`{"address": "0000:0a:00."}`, true},
		"any function":                   {`{"address": "0000:0a:00.*"}`, true},
		"another domain":                 {`{"address": "0001:0a:00.1"}`, false},
		"another bus":                    {`{"address": "0000:0b:00.1"}`, false},
		"another slot":                   {`{"address": "0000:0a:01.1"}`, false},
		"another function":               {`{"address": "0000:0a:00.0"}`, false},
		"expressions":                    {`{"address": {"domain": ".*", "bus": "0a", "slot": "00", "function": "[0-3]"}}`, true},
		"no expressions":                 {`{"address": {}}`, true},
		"one expression":                 {`{"address": {"bus": "0a"}}`, true},
		"an expression that is not it":   {`{"address": {"bus": "0b"}}`, false},
		"expression as a prefix":         {`{"address": {"bus": "0"}}`, true},
		"expression is no substring":     {`{"address": {"bus": "a"}}`, false},
		"expression to the end":          {`{"address": {"bus": "0$"}}`, false},
		"expression with capitals":       {`{"address": {"bus": "0A"}}`, false},
		"expression without case":        {`{"address": {"bus": "(?i)0A"}}`, true},
		"alternatives are both a prefix": {`{"address": {"bus": "x|a"}}`, false},
		"alternatives":                   {`{"address": {"bus": "0b|0a"}}`, true},
		"one expression of two":          {`{"address": {"bus": "0a", "function": "[2-7]"}}`, false},
		"expression, a class of signs":   {`{"address": {"bus": "[^$*]+$"}}`, true},
		"empty expression":               {`{"address": {"bus": ""}}`, true},
		"tags do not match":              {`{"physical_network": "physnet1", "class": "none"}`, true},
		"keys know capitals":             {`{"Vendor_ID": "1234"}`, true},
		"devname of no device":           {`{"devname": "eth0"}`, false},
	} {
		t.Run(what, func(t *testing.T) {
			s, err := ParseSpec([]byte(c.spec))
			require.NoError(t, err)
			got, err := s.Match(parsed(t, disk))
			require.NoError(t, err)
			require.Equal(t, c.match, got)
		})
	}
}

func TestInvalidSpecsNameTheField(t *testing.T) {
	for what, c := range map[string]struct{ spec, field, reason string }{
		"vendor is empty":               {`{"vendor_id": ""}`, "vendor_id", `"" is not a hexadecimal number`},
		"vendor is a number":            {`{"vendor_id": 8086}`, "vendor_id", "must be a string, not 8086"},
		"vendor is null":                {`{"vendor_id": null}`, "vendor_id", "must be a string, not null"},
		"vendor is a list":              {`{"vendor_id": ["8086"]}`, "vendor_id", "must be a string, not a list"},
		"vendor is no number":           {`{"vendor_id": "intel"}`, "vendor_id", `"intel" is not a hexadecimal number`},
		"vendor is a glob":              {`{"vendor_id": "80*"}`, "vendor_id", "not a hexadecimal"},
		"vendor has a sign":             {`{"vendor_id": "-1"}`, "vendor_id", "not a hexadecimal"},
		"vendor is 0x alone":            {`{"vendor_id": "0x"}`, "vendor_id", "not a hexadecimal"},
		"vendor is too large":           {`{"vendor_id": "10000"}`, "vendor_id", `"10000" is more than FFFF`},
		"expression repeats an end":     {`{"address": {"bus": "0a$*"}}`, "address.bus", "repeats an expression of no length"},
		"expression repeats an edge":    {`{"address": {"bus": "(0|\\b{2})a"}}`, "address.bus", "repeats an expression of no length"},
		"product is empty":              {`{"product_id": ""}`, "product_id", "not a hexadecimal"},
		"product is a number":           {`{"product_id": 1}`, "product_id", "must be a string"},
		"product is too large":          {`{"product_id": "0x1FFFF"}`, "product_id", "is more than FFFF"},
		"product is far too large":      {`{"product_id": "ffffffffffffffffffff"}`, "product_id", "is more than FFFF"},
		"product is any, with blanks":   {`{"product_id": " * "}`, "product_id", "not a hexadecimal"},
		"product is null":               {`{"product_id": null}`, "product_id", "must be a string, not null"},
		"address is a number":           {`{"address": 5}`, "address", "must be a string or an object, not 5"},
		"address is true":               {`{"address": true}`, "address", "must be a string or an object, not true"},
		"address is a list":             {`{"address": ["0a:00.1"]}`, "address", "not a list"},
		"wildcard within a field":       {`{"address": "0000:0*:00.1"}`, "address", `bus "0*" is not a hexadecimal number; * stands for a whole field only`},
		"wildcard within the function":  {`{"address": "0000:0a:00.1*"}`, "address", "function"},
		"two wildcards":                 {`{"address": "0000:**:00.1"}`, "address", "bus"},
		"a class":                       {`{"address": "0000:0a:00.[0-3]"}`, "address", "function"},
		"too many fields":               {`{"address": "0:0000:0a:00.1"}`, "address", "more than three"},
		"domain too large":              {`{"address": "10000:0a:00.1"}`, "address", `domain "10000" is more than FFFF`},
		"bus too large":                 {`{"address": "0000:100:00.1"}`, "address", `bus "100" is more than FF`},
		"slot too large":                {`{"address": "0000:0a:20.1"}`, "address", `slot "20" is more than 1F`},
		"function too large":            {`{"address": "0000:0a:00.8"}`, "address", `function "8" is more than 7`},
		"two dots":                      {`{"address": "0000:0a:00.1.2"}`, "address", "function"},
		"function of blanks":            {`{"address": "0a:00. "}`, "address", "function"},
		"expression is bad":             {`{"address": {"bus": "["}}`, "address.bus", `"[" is not a valid expression: missing closing ]`},
		"expression closes too much":    {`{"address": {"domain": "a)|(b"}}`, "address.domain", "not a valid expression"},
		"expression is a number":        {`{"address": {"slot": 0}}`, "address.slot", "must be a string"},
		"expression is null":            {`{"address": {"function": null}}`, "address.function", "must be a string"},
		"expression of nothing":         {`{"address": {"func": "0"}}`, "address.func", "unknown: must be one of domain, bus, slot, function"},
		"expression twice":              {`{"address": {"bus": "0", "bus": "1"}}`, "address.bus", "duplicate"},
		"expression with a lookahead":   {`{"address": {"bus": "(?=0)"}}`, "address.bus", "which Python and Go read differently"},
		"expression of Go":              {`{"address": {"bus": "[[:xdigit:]]+"}}`, "address.bus", "which Python and Go read differently"},
		"expression of Go, a number":    {`{"address": {"bus": "\\x{30}a"}}`, "address.bus", "which Python and Go read differently"},
		"expression of Go, octal":       {`{"address": {"bus": "\\60a"}}`, "address.bus", "which Python and Go read differently"},
		"expression of Go, property":    {`{"address": {"bus": "\\pN"}}`, "address.bus", "which Python and Go read differently"},
		"expression of Python, repeat":  {`{"address": {"bus": "0{,3}"}}`, "address.bus", "write {0,"},
		"expression ends early":         {`{"address": {"bus": "0\\"}}`, "address.bus", "lone"},
		"devname and address":           {`{"devname": "eth0", "address": "0a:00.1"}`, "devname", "excludes address"},
		"devname and object address":    {`{"devname": "eth0", "address": {"bus": "0a"}}`, "devname", "excludes address"},
		"devname is a number":           {`{"devname": 1}`, "devname", "must be a string"},
		"one_time_use maybe":            {`{"one_time_use": "maybe"}`, "one_time_use", `must be one of yes, no, true, false, on, off, y, n, t, f, 1, 0, not "maybe"`},
		"one_time_use empty":            {`{"one_time_use": ""}`, "one_time_use", "must be one of yes, no"},
		"one_time_use 2":                {`{"one_time_use": 2}`, "one_time_use", "1, 0, not 2"},
		"one_time_use a list":           {`{"one_time_use": ["yes"]}`, "one_time_use", "1, 0, not a list"},
		"one_time_use 1.0":              {`{"one_time_use": 1.0}`, "one_time_use", "1, 0, not 1.0"},
		"live_migratable an object":     {`{"live_migratable": {}}`, "live_migratable", "1, 0, not an object"},
		"one_time_use enabled":          {`{"one_time_use": "enabled"}`, "one_time_use", "must be one of yes, no"},
		"clear_action":                  {`{"clear_action": "erase"}`, "clear_action", `"erase" is unknown: must be one of auto, sanitize, zero`},
		"clear_strategy":                {`{"clear_strategy": "shred"}`, "clear_strategy", `"shred" is unknown: must be one of auto, crypto, block`},
		"zero with crypto":              {`{"clear_action": "zero", "clear_strategy": "crypto"}`, "clear_strategy", "is impossible with clear_action zero"},
		"a key twice":                   {`{"vendor_id": "8086", "vendor_id": "8087"}`, "vendor_id", "duplicate"},
		"a tag twice":                   {`{"a": 1, "a": 1}`, "a", "duplicate"},
		"a key of two lines, twice":     {"{\"a\\nb\": 1, \"a\\nb\": 1}", `"a\nb"`, "duplicate"},
		"a value that is cut off":       {`{"vendor_id": "80`, "vendor_id", "is not JSON"},
		"a value that is none":          {`{"vendor_id": yes}`, "vendor_id", "is not JSON"},
		"nothing":                       {``, "", "is empty"},
		"blanks":                        {` `, "", "is empty"},
		"no object":                     {`"vendor_id"`, "", "is not a JSON object"},
		"null":                          {`null`, "", "is not a JSON object"},
		"a word":                        {`vendor`, "", "is not JSON"},
		"an object that does not end":   {`{"vendor_id": "8086"`, "", "unexpected end"},
		"an object with something more": {`{} {}`, "", "more text after the object"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := ParseSpec([]byte(c.spec))
			var fault *Invalid
			require.ErrorAs(t, err, &fault)
			require.Equal(t, c.field, fault.Field, err)
			require.Contains(t, fault.Reason, c.reason)
			require.True(t, strings.HasPrefix(err.Error(), c.field), err)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// S0.2
func TestOneTimeUse(t *testing.T) {
	for value, want := range map[string]bool{
		`"yes"`: true, `"YES"`: true, `"true"`: true, `"True"`: true, `"1"`: true, `true`: true, `1`: true,
		`"on"`: true, `"t"`: true, `"Y"`: true, `" ON\n"`: true, `"off"`: false, `"f"`: false, `"N"`: false, `-0`: false,
		`"no"`: false, `"No"`: false, `"false"`: false, `"FALSE"`: false, `"0"`: false, `false`: false, `0`: false,
	} {
		s, err := ParseSpec([]byte(`{ "one_time_use" :  ` + value + ` , "x":1}`))
		require.NoError(t, err, value)
		require.Equal(t, want, s.OneTimeUse(), value)
		tag := map[bool]string{true: `"true"`, false: `"false"`}[want]
		require.Equal(t, tag, string(s.Tags()["one_time_use"]), value)
	}
	s, err := ParseSpec([]byte(`{"vendor_id": "8086"}`))
	require.NoError(t, err)
	require.False(t, s.OneTimeUse(), "absent means no")
	require.NotContains(t, s.Tags(), "one_time_use")

	// null is as absent, for a virtual function too.
	s, err = ParseSpec([]byte(`{"vendor_id": "8086", "one_time_use": null, "live_migratable": null}`))
	require.NoError(t, err)
	require.False(t, s.OneTimeUse() || s.LiveMigratable())
	ok, err := s.Match(Device{Address: "0000:0a:02.0", Vendor: "8086", Product: "10ed", Type: Virtual})
	require.NoError(t, err)
	require.True(t, ok)
}

// What is false in Python is no address and no devname for Nova (run with Nova 26.2.2).
func TestWhatNovaTakesForNoCriterion(t *testing.T) {
	for _, spec := range []string{
		`{"address": null}`, `{"address": ""}`, `{"address": " "}`, `{"address": {}}`, `{"address": [ ]}`, `{"address": 0.0}`,
		`{"address": false}`,
		`{"devname": null}`, `{"devname": ""}`, `{"devname": 0}`, `{"vendor_id": " * "}`,
	} {
		s, err := ParseSpec([]byte(spec))
		require.NoError(t, err, spec)
		require.False(t, s.Narrows(), spec)
		ok, err := s.Match(Device{Address: "0000:0a:00.1", Vendor: "8086", Product: "10ed", Type: Whole})
		require.NoError(t, err, spec)
		require.True(t, ok, spec)
	}
	for _, spec := range []string{`{"devname": "", "address": "0a:00.1"}`, `{"devname": "eth0", "address": null}`} {
		s, err := ParseSpec([]byte(spec))
		require.NoError(t, err, spec)
		require.True(t, s.Narrows(), spec)
	}
}

// S0.13
func TestOneTimeUseIsForWholeDevices(t *testing.T) {
	for kind, whole := range map[string]bool{
		`"dev_type": "type-PCI"`:                               true,
		`"dev_type": "type-PF"`:                                true,
		`"dev_type": "type-VF"`:                                false,
		`"parent_addr": "0000:0a:00.0"`:                        true, // Nova goes by dev_type alone
		`"dev_type": "type-VF", "parent_addr": "0000:0a:00.0"`: false,
	} {
		d := parsed(t, `{"vendor_id": "8086", `+kind+`}`)
		for _, value := range []string{"yes", "no"} {
			s, err := ParseSpec([]byte(`{"vendor_id": "8086", "one_time_use": "` + value + `"}`))
			require.NoError(t, err)
			ok, err := s.Match(d)
			require.Equal(t, whole, ok, "%s, %s", kind, value)
			if !whole {
				var fault *Invalid
				require.ErrorAs(t, err, &fault)
				require.Equal(t, "one_time_use", fault.Field)
				require.Contains(t, fault.Reason, "virtual function")
			} else {
				require.NoError(t, err)
			}
		}
		s, err := ParseSpec([]byte(`{"vendor_id": "1234", "one_time_use": "yes"}`))
		require.NoError(t, err)
		ok, err := s.Match(d)
		require.NoError(t, err, "a device that the spec does not mean")
		require.False(t, ok)
	}
}

func TestTagsAreKept(t *testing.T) {
	s, err :=
		ParseSpec([]byte(`{"vendor_id": "8086", "product_id": "1", "address": "0a:00.1", "physical_network": "physnet1",
		"trusted": "True", "managed": "no", "remote_managed": "false", "live_migratable": "yes", "resource_class": "CUSTOM_X",
		"traits": "A,B", "tunnel": null, "number": 1.50, "list": [1, 2], "clear_action": "auto"}`))
	require.NoError(t, err)
	text, err := json.Marshal(s.Tags())
	require.NoError(t, err)
	require.Equal(t,
		`{"clear_action":"auto","list":[1,2],"live_migratable":"true","managed":"no","number":1.50,"physical_network":"physnet1",`+
			`"remote_managed":"false","resource_class":"CUSTOM_X","traits":"A,B","trusted":"True","tunnel":null}`, string(text))

	for _, policy := range []string{`"auto"`, `"sanitize"`} {
		_, err = ParseSpec([]byte(`{"clear_action": ` + policy + `, "clear_strategy": "crypto"}`))
		require.NoError(t, err)
	}

	s, err = ParseSpec([]byte(`{"devname": "eth0"}`))
	require.NoError(t, err)
	require.NotNil(t, s.Tags())
	require.Empty(t, s.Tags())
}

func TestASpecOfAPhysicalFunctionMatchesItsVirtualOnes(t *testing.T) {
	const vf = `{"address": "0000:0a:02.1", "vendor_id": "8086", "product_id": "154c", "parent_addr": "0000:0a:00.0", "parent_ifname": "ens1"}`
	for spec, match := range map[string]bool{
		`{"address": "0000:0a:00.0"}`:                                                   true,
		`{"address": "0:0A:0.0"}`:                                                       true,
		`{"address": "0000:0a:00.*"}`:                                                   false, // no single address
		`{"address": "0a:00.0"}`:                                                        false,
		`{"address": "0000:0a:00.1"}`:                                                   false,
		`{"address": "0000:0a:02.1"}`:                                                   true,
		`{"address": "0000:0a:02.*"}`:                                                   true,
		`{"vendor_id": "8087", "address": "0000:0a:00.0"}`:                              false,
		`{"product_id": "154c", "address": "0000:0a:00.0"}`:                             true,
		`{"address": {"domain": "0000", "bus": "0a", "slot": "00", "function": "0"}}`:   true,
		`{"address": {"domain": "0000", "bus": "0A", "slot": "00", "function": "0"}}`:   false,
		`{"address": {"domain": "000", "bus": "0a", "slot": "00", "function": "0"}}`:    false,
		`{"address": {"domain": "0000", "bus": "0a", "slot": "00", "function": "[0]"}}`: false,
		`{"address": {"domain": "0000", "bus": "0a", "slot": "0", "function": ".*"}}`:   true, // by its own
		`{"devname": "ens1"}`:                                                           true,
		`{"devname": "ens2"}`:                                                           false,
	} {
		s, err := ParseSpec([]byte(spec))
		require.NoError(t, err, spec)
		got, err := s.Match(parsed(t, vf))
		require.NoError(t, err, spec)
		require.Equal(t, match, got, spec)
	}
	s, err := ParseSpec([]byte(`{"devname": "ens1"}`))
	require.NoError(t, err)
	got, err := s.Match(parsed(t, `{"devname": "ens1"}`))
	require.NoError(t, err)
	require.True(t, got)
}

func TestTheFirstEntryThatMatchesCounts(t *testing.T) {
	specs, err :=
		ParseSpecs([]byte(` [{"vendor_id": "8087", "n": 1}, {"product_id": "0a54", "n": 2}, {"vendor_id": "8086", "n": 3}]`))
	require.NoError(t, err)
	s, ok, err := specs.Match(parsed(t, disk))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "2", string(s.Tags()["n"]))

	_, ok, err = specs.Match(parsed(t, `{"vendor_id": "1", "product_id": "2"}`))
	require.NoError(t, err)
	require.False(t, ok)
	_, _, err = specs.Match(parsed(t, `{"vendor_id": "1"}`))
	require.EqualError(t, err, "entry 2: product_id: the device has none, and the spec requires it")

	specs, err = ParseSpecs([]byte(`{"vendor_id": "8086"}`))
	require.NoError(t, err)
	require.Len(t, specs, 1)
	_, _, err = specs.Match(parsed(t, `{}`))
	require.EqualError(t, err, "vendor_id: the device has none, and the spec requires it")

	specs, err = ParseSpecs([]byte(`[]`))
	require.NoError(t, err)
	_, ok, err = specs.Match(parsed(t, disk))
	require.NoError(t, err)
	require.False(t, ok, "no entry matches nothing")

	for text, want := range map[string]string{
		`[{}, {"address": "0*"}]`: "entry 2: address: ",
		`[{}, 1]`:                 "entry 2: is not a JSON object",
		`[{}`:                     "is not JSON: ",
		`[{}] x`:                  "is not JSON: ",
		``:                        "is empty",
		`{"vendor_id": 1}`:        "vendor_id: ",
	} {
		_, err := ParseSpecs([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.ErrorAs(t, err, new(*Invalid))
	}
}

func TestDevicesOfASpec(t *testing.T) {
	d :=
		parsed(t,
			`{"address": "0:A:0.1", "vendor_id": "0X8086", "product_id": "A54", "dev_type": null, "parent_addr": null, "label": "x"}`)
	require.Equal(t, Device{Address: "0000:0a:00.1", Vendor: "8086", Product: "0a54", Type: Whole}, d)
	require.Equal(t, Whole, parsed(t, `{"parent_addr": "0000:0a:00.0"}`).Type, "a parent alone makes no virtual function")
	require.Equal(t, Virtual, parsed(t, `{"parent_addr": "0000:0a:00.0", "dev_type": "type-VF"}`).Type)
	require.Equal(t, Physical, parsed(t, `{"dev_type": "type-PF"}`).Type)
	for what, c := range map[string]struct{ device, field, reason string }{
		"no JSON":             {`x`, "", "is not JSON"},
		"a list":              {`[]`, "", "is not a JSON object"},
		"vendor is a number":  {`{"vendor_id": 8086}`, "vendor_id", "must be a string"},
		"vendor is empty":     {`{"vendor_id": ""}`, "vendor_id", "is empty"},
		"vendor is any":       {`{"vendor_id": "*"}`, "vendor_id", "not a hexadecimal"},
		"product too large":   {`{"product_id": "12345"}`, "product_id", "more than FFFF"},
		"address of three":    {`{"address": "0a:00.1"}`, "address", "it must be domain:bus:slot.function"},
		"address of five":     {`{"address": "0:0:0a:00.1"}`, "address", "more than three"},
		"address without .":   {`{"address": "0000:0a:00"}`, "address", "function"},
		"address is any":      {`{"address": "*:*:*.*"}`, "address", "domain"},
		"a domain of five":    {`{"address": "10000:01:00.0"}`, "address", "more than FFFF"},
		"parent is strange":   {`{"parent_addr": "eth0"}`, "parent_addr", "not a PCI address"},
		"type is strange":     {`{"dev_type": "VF"}`, "dev_type", "must be one of type-PCI, type-PF, type-VF"},
		"a PF with a parent":  {`{"dev_type": "type-PF", "parent_addr": "0000:0a:00.0"}`, "parent_addr", "only a type-VF"},
		"devname is a number": {`{"devname": 0}`, "devname", "must be a string"},
		"vendor twice":        {`{"vendor_id": "1", "vendor_id": "2"}`, "vendor_id", "duplicate"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := ParseDevice([]byte(c.device))
			var fault *Invalid
			require.ErrorAs(t, err, &fault)
			require.Equal(t, c.field, fault.Field, err)
			require.Contains(t, fault.Reason, c.reason)
		})
	}
}

// A criterion without a value on the device neither matches nor mismatches.
func TestADeviceMustSayWhatTheSpecAsksFor(t *testing.T) {
	for spec, field := range map[string]string{
		`{"vendor_id": "8086"}`:         "vendor_id",
		`{"product_id": "1"}`:           "product_id",
		`{"address": "0a:00.1"}`:        "address",
		`{"address": {"domain": ".*"}}`: "address",
	} {
		s, err := ParseSpec([]byte(spec))
		require.NoError(t, err)
		ok, err := s.Match(Device{})
		require.False(t, ok)
		var fault *Invalid
		require.ErrorAs(t, err, &fault)
		require.Equal(t, field, fault.Field)
	}
	var zero Spec
	ok, err := zero.Match(parsed(t, disk))
	require.NoError(t, err)
	require.False(t, ok, "the zero Spec matches nothing")
	require.True(t, zero.Narrows())

	s, err := ParseSpec([]byte(`{"vendor_id": "8086"}`))
	require.NoError(t, err)
	ok, err = s.Match(Device{Address: "10000:01:00.0", Vendor: "8086"})
	require.NoError(t, err)
	require.False(t, ok, "a domain that no spec can name")
	s, err = ParseSpec([]byte(`{"address": "0000:0a:00.0"}`))
	require.NoError(t, err)
	_, err = s.Match(Device{Address: "x"})
	require.ErrorContains(t, err, "address: ")
	_, err = s.Match(Device{Address: "0000:0a:02.0", Parent: "x"})
	require.ErrorContains(t, err, "parent_addr: ")
}

func TestNarrows(t *testing.T) {
	for spec, want := range map[string]bool{
		`{}`: false, `{"physical_network": "x"}`: false, `{"vendor_id": "*"}`: false, `{"address": "*:*:*.*"}`: false, `{"address": ""}`: false,
		`{"address": ":."}`: false, `{"address": {}}`: false, `{"one_time_use": "yes"}`: false,
		`{"vendor_id": "1"}`: true, `{"product_id": "1"}`: true, `{"devname": "x"}`: true, `{"address": ".0"}`: true, `{"address": {"bus": "0a"}}`: true,
	} {
		s, err := ParseSpec([]byte(spec))
		require.NoError(t, err)
		require.Equal(t, want, s.Narrows(), spec)
	}
}
