package mutation

// guestDeviceMutations are of what a guest learns of its devices: udev's rules and the config
// drive.
var guestDeviceMutations = []mutation{
	{
		name: "a serial that is a pattern matches itself alone",
		file: "internal/nova/udev/match.go",
		old:  "case strings.IndexByte(`*?[`, c) >= 0:",
		new:  "case strings.IndexByte(`*[`, c) >= 0:",
		pkg:  "./internal/nova/udev", run: "TestASerialThatIsAPatternMatchesItselfAlone TestRandomTextIsHarmless",
	},
	{
		name: "a serial with a quote or a bar gets no rule",
		file: "internal/nova/udev/match.go",
		old:  "c > '~' || strings.IndexByte(`\"\\|`, c) >= 0:",
		new:  "c > '~' || strings.IndexByte(`\"\\`, c) >= 0:",
		pkg:  "./internal/nova/udev", run: "TestASerialThatIsAPatternMatchesItselfAlone",
	},
	{
		name: "two tags never have one encoding",
		file: "internal/nova/udev/encode.go",
		old:  "|| c == '-'",
		new:  "|| c == '-' || c == '_'",
		pkg:  "./internal/nova/udev", run: "TestTwoTagsNeverHaveOneEncoding",
	},
	{
		name: "two long tags never have one encoding",
		file: "internal/nova/udev/encode.go",
		old:  "big.NewInt(int64(r)+1)",
		new:  "big.NewInt(int64(r))",
		pkg:  "./internal/nova/udev", run: "TestTwoTagsNeverHaveOneEncoding",
	},
	{
		name: "a tag that is not UTF-8 gives no rules",
		file: "internal/nova/udev/document.go",
		old:  "json.Unmarshal(document, &d)",
		new:  "json.Unmarshal([]byte(string([]rune(string(document)))), &d)",
		pkg:  "./internal/nova/udev", run: "TestADocumentThatCannotBeReadGivesNoRules",
	},
	{
		name: "two disks of one serial are distinguished, or get no rule",
		file: "internal/nova/udev/choose.go",
		old:  "return ok && part(id) == own && !e.sameRole(other)",
		new:  "return false && ok && part(id) == own && !e.sameRole(other)",
		pkg:  "./internal/nova/udev", run: "TestWhatCannotBeToldApartGetsNoRule",
	},
	{
		name: "a drive of the same serial at another address is not marked",
		file: "internal/nova/udev/choose.go",
		old:  `[]match{isNot("DEVPATH", "*/pci*:??/*")}`,
		new:  `nil`,
		pkg:  "./internal/nova/udev", run: "TestUdevMarksWhatTheDocumentMeans",
	},
	{
		name: "what is behind a bridge is not marked by the bridge's address",
		file: "internal/nova/udev/match.go",
		old:  `[]match{is("DEVPATH", below+"*"), isNot("DEVPATH", below+"????:??:??.?/*|"+below+"pci*")}`,
		new:  `[]match{is("DEVPATH", below+"*")}`,
		pkg:  "./internal/nova/udev", run: "TestUdevMarksWhatTheDocumentMeans",
	},
	{
		name: "a card that has another one's MAC in a bond is not marked",
		file: "internal/nova/udev/match.go",
		old:  `, isNot("ENV{"+envMACSet+"}", "1")`,
		new:  ``,
		pkg:  "./internal/nova/udev", run: "TestUdevMarksWhatTheDocumentMeans",
	},
	{
		name: "a device whose rule is too long does not take the others' rules away",
		file: "internal/nova/udev/rules.go",
		old:  "const most = 16000",
		new:  "const most = 160000",
		pkg:  "./internal/nova/udev", run: "TestUdevMarksWhatTheDocumentMeans",
	},
	{
		name: "each dated folder of a config drive holds the document",
		file: "internal/nova/configdrive/image.go",
		old:  "if err := os.WriteFile(filepath.Join(folder, document), text, 0o600); err != nil {",
		new:  "if err := os.WriteFile(filepath.Join(folder, document), text, 0o600); err != nil || os.MkdirAll(filepath.Join(workspace, \"openstack\", \"2012-08-10\"), 0o700) != nil {",
		pkg:  "./internal/nova/configdrive", run: "TestOtherProgramsReadTheImage TestCloudInitReadsTheDrive",
	},
	{
		name: "a config drive can be read by Joliet's names",
		file: "internal/nova/configdrive/finish.go",
		old:  "r.setExtent(paths[child].block, inside[0].size())",
		new:  "r.setExtent(r.block(), inside[0].size())",
		pkg:  "./internal/nova/configdrive", run: "TestOtherProgramsReadTheImage",
	},
	{
		name: "a document of whole blocks leaves the drive's folders as they are",
		file: "internal/nova/configdrive/image.go",
		old:  "if len(text)%blockSize == 0 {",
		new:  "if len(text) == 0 {",
		pkg:  "./internal/nova/configdrive", run: "TestOtherProgramsReadTheImage",
	},
	{
		name: "a config drive does not replace a link or a device",
		file: "internal/nova/configdrive/write.go",
		old:  "case !info.Mode().IsRegular():",
		new:  "case info.IsDir():",
		pkg:  "./internal/nova/configdrive", run: "TestWriteReplacesPlainFilesAlone",
	},
}
