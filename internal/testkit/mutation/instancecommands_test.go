package mutation

// instanceCommandMutations take out what keeps the command line from giving a guest another
// device, tag or address than the operator named.
var instanceCommandMutations = []mutation{
	{
		name: "a guest's address belongs to the device before it",
		file: "starter/instance_flags.go",
		old:  `	if len(d.devices) == 0 || d.guestless {`,
		new:  `	if len(d.devices) == 0 {`,
		pkg:  "./starter", run: "TestWrongInputForInstances",
	},
	{
		name: "an empty tag is refused, not left out",
		file: "starter/instance_flags.go",
		old:  `	if tagged {`,
		new:  `	if tagged && tag != "" {`,
		pkg:  "./starter", run: "TestWrongInputForInstances",
	},
	{
		name: "only the first = parts a name from its tag",
		file: "starter/instance_flags.go",
		old:  `	name, tag, tagged := strings.Cut(text, "=")`,
		new:  `	name, tag, tagged := text, "", false; if i := strings.LastIndex(text, "="); i >= 0 { name, tag, tagged = text[:i], text[i+1:], true }`,
		pkg:  "./starter", run: "TestInstanceRequestsAreSentAsContracted",
	},
	{
		name: "a device is named once, in whatever spelling",
		file: "workflows/contract/instance_input.go",
		old:  `		case seen[name]:`,
		new:  `		case seen[c.Name]:`,
		pkg:  "./workflows/contract", run: "TestInstanceInputsThatAreInvalid",
	},
	{
		name: "no tag is invented for several requested devices",
		file: "workflows/contract/instance_input.go",
		old:  `	case r.Tag != "" && r.Count > 1:`,
		new:  `	case r.Tag == "never" && r.Count > 1:`,
		pkg:  "./workflows/contract", run: "TestInstanceInputsThatAreInvalid",
	},
	{
		name: "an address of a guest has one form",
		file: "workflows/contract/instance_input.go",
		old:  `		canonical := address.Unmap().String()`,
		new:  `		canonical := address.String()`,
		pkg:  "./workflows/contract", run: "TestInstanceInputsHaveOneSpelling",
	},
	{
		name: "a device that the domain does not name gets no address",
		file: "starter/instance_domain.go",
		old:  `		devices[i].Guest = found[address]`,
		new:  `		for _, any := range found { devices[i].Guest = any }; if len(found[address]) > 0 { devices[i].Guest = found[address] }`,
		pkg:  "./starter", run: "TestInstanceBindWithADomain",
	},
	{
		name: "only an instance that was released is released already",
		file: "workflows/client/instance.go",
		old:  `	case known == nil && status.Phase == contract.InstanceReleased:`,
		new:  `	case known == nil:`,
		pkg:  "./workflows/client", run: "TestALostInstanceIsReleased",
	},
	{
		name: "no text reverses a line of the terminal",
		file: "starter/internal/terminal/text.go",
		old:  ` || unicode.Is(unicode.Cf, r) {`,
		new:  ` || unicode.Is(unicode.Cf, r) && r == 0 {`,
		pkg:  "./starter/internal/terminal", run: "TestLine",
	},
	{
		name: "texts of tenants do not reach a terminal as they are",
		file: "starter/instance_show.go",
		old:  `	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {`,
		new:  `	if utf8.ValidString(text) && strings.ContainsFunc(text, plain) {`,
		pkg:  "./starter", run: "TestInstanceGolden TestQuoted",
	},
}
