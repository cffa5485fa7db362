package mutation

// metadataMutations take out what the guest's document must not show, and what it must have.
var metadataMutations = []mutation{
	{
		rule: "S1.35", name: "a tag has neither a comma nor a slash",
		file: "internal/device/tag.go",
		old:  `strings.ContainsAny(tag, ",/")`,
		new:  `strings.ContainsAny(tag, ",")`,
		pkg:  "./internal/device", run: "TestTagsOfOneToSixtyCharactersWithoutCommaAndSlash",
	},
	{
		rule: "S1.35", name: "a tag is measured in characters",
		file: "internal/device/tag.go",
		old:  `utf8.RuneCountInString(tag)`,
		new:  `len(tag)`,
		pkg:  "./internal/device", run: "TestTagsOfOneToSixtyCharactersWithoutCommaAndSlash",
	},
	{
		rule: "S1.14", name: "an address is of its bus as a whole",
		file: "internal/tagging/tagging.go",
		old:  "regexp.MustCompile(`\\A(?:` + b.Form + `)\\z`)",
		new:  "regexp.MustCompile(`\\A(?:` + b.Form + `)`)",
		pkg:  "./internal/tagging", run: "TestGuestAddressesOfEachBus",
	},
	{
		rule: "S1.11", name: "the schema's dot is a dot",
		file: "internal/nova/metadata/device-role-tagging.json",
		old:  `[01][a-f0-9]\\.[0-7]$`,
		new:  `[01][a-f0-9].[0-7]$`,
		pkg:  "./internal/nova/metadata", run: "TestTheSchemaRefusesEachDeviation",
	},
	{
		rule: "S1.20", name: "a document that deviates from the schema reaches no guest",
		file: "internal/nova/metadata/metadata.go",
		old:  `err := Validate(b.Bytes()); err != nil`,
		new:  `err := Validate(b.Bytes()); err != nil && len(d.Devices) == 0`,
		pkg:  "./internal/nova/metadata", run: "TestNoDocumentDeviatesFromTheSchema",
	},
	{
		rule: "S1.15", name: "without a guest's address the host's is not shown",
		file: "internal/nova/metadata/metadata.go",
		old:  `guest = []contract.GuestAddress{{Bus: tagging.None}}`,
		new:  `guest = []contract.GuestAddress{{Bus: tagging.PCI, Address: strings.TrimPrefix(d.Name, "h1_")}}`,
		pkg:  "./internal/nova/metadata", run: "TestTheHostsAddressIsNeverShown",
	},
	{
		rule: "S1.15", name: "the address in a domain's source is the host's",
		file: "internal/nova/metadata/domain.go",
		old:  `	a := p.Addresses[0]`,
		new: `	a := append(p.Source.Addresses, p.Addresses...)[0]
	a.Type = p.Addresses[0].Type`,
		pkg: "./internal/nova/metadata", run: "TestWhereADomainsGuestFindsItsDevices",
	},
	{
		rule: "S1.15", name: "a device that the domain keeps from its guest has no address there",
		file: "internal/nova/metadata/domain.go",
		old: `	case a.Type == "unassigned":
		return nil, nil`,
		new: `	case a.Type == "unassigned":
		return g, nil`,
		pkg: "./internal/nova/metadata", run: "TestWhereADomainsGuestFindsItsDevices",
	},
	{
		rule: "S1.16", name: "a NIC without a MAC is left out",
		file: "internal/nova/metadata/metadata.go",
		old:  `			if e.MAC == "" {`,
		new:  `			if e.MAC == "-" {`,
		pkg:  "./internal/nova/metadata", run: "TestANICWithoutAMACIsLeftOut",
	},
	{
		rule: "S1.16", name: "a MAC that the host gave a NIC is not the guest's",
		file: "internal/pci/sysfs.go",
		old:  `if err != nil || kind != "0" {`,
		new:  `if err != nil || kind == "1" {`,
		pkg:  "./internal/pci", run: "TestTheMACOfANICsOnlyInterface",
	},
	{
		rule: "S0.24", name: "only yes marks a device as live-migratable",
		file: "internal/pci/spec.go",
		old:  "string(s.tags[liveMigratable]) == `\"true\"`",
		new:  "string(s.tags[liveMigratable]) != ``",
		pkg:  "./internal/host", run: "TestLiveMigratableIsAKeyOfAnEntry",
	},
}
