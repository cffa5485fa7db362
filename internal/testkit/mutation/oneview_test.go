package mutation

// oneviewMutations take out what keeps servers of a shared pool, and the other users of the
// appliance, safe.
var oneviewMutations = []mutation{
	{
		name: "a profile that is not recorded is another user's",
		file: "internal/oneview/ownership.go",
		old:  `	case s.owns(profile, name):`,
		new:  `	case profile != "":`,
		pkg:  "./internal/oneview", run: "TestTheAppliedProfileSaysWhoHasAServer TestATakenServerIsLeftAlone",
	},
	{
		name: "a profile is adopted by its name only while one is requested",
		file: "internal/oneview/ownership.go",
		old:  `s.Applying && s.UUID != "" && name == s.UUID`,
		new:  `s.UUID != "" && name == s.UUID`,
		pkg:  "./internal/oneview", run: "TestTheAppliedProfileSaysWhoHasAServer",
	},
	{
		name: "a profile that was requested is Burnish's only by the device's name",
		file: "internal/oneview/ownership.go",
		old:  `s.Applying && s.UUID != "" && name == s.UUID`,
		new:  `s.Applying && s.UUID != ""`,
		pkg:  "./internal/oneview", run: "TestTheAppliedProfileSaysWhoHasAServer TestATakenServerIsLeftAlone",
	},
	{
		name: "a server is asked about only by its serial number",
		file: "internal/oneview/look.go",
		old:  `	if !hardware.SameSerial(h.Serial, c.server.Serial) {`,
		new:  `	if hardware.SameSerial(h.Serial, "never") {`,
		pkg:  "./internal/oneview", run: "TestAServerWithAnotherSerialNumberIsNotAskedAbout",
	},
	{
		name: "an unknown serial number is equal to none",
		file: "internal/hardware/serial.go",
		old:  `	return SerialKey(a) != "" && SerialKey(a) == SerialKey(b)`,
		new:  `	return SerialKey(a) == SerialKey(b)`,
		pkg:  "./internal/hardware", run: "TestSerialNumbersAreComparedWithoutCaseAndSpaces",
	},
	{
		name: "a poll finds a device whose host wrote its serial number otherwise",
		file: "activities/polls.go",
		old:  `bySerial[hardware.SerialKey(e.Status.Serial)]`,
		new:  `bySerial[e.Status.Serial]`,
		pkg:  "./activities", run: "TestAPollFindsADeviceHoweverItsSerialNumberIsWritten",
	},
	{
		name: "a server is read right before each change",
		file: "internal/oneview/profile.go",
		old:  `	now, err := c.readHardware(ctx)`,
		new:  `	now, err := v.hardware, ctx.Err()`,
		pkg:  "./internal/oneview", run: "TestTheServerIsReadRightBeforeEachChange TestEveryChangeFollowsARead",
	},
	{
		name: "a server that was taken since the look is not changed",
		file: "internal/oneview/profile.go",
		old: `	if now.Profile != v.hardware.Profile || now.Power != v.hardware.Power ||
		now.State != v.hardware.State || now.Tag != v.hardware.Tag {`,
		new: `	if now.Profile == "never" {`,
		pkg: "./internal/oneview", run: "TestTheServerIsReadRightBeforeEachChange",
	},
	{
		name: "a server is switched off before its profile is removed, if it is Burnish's",
		file: "internal/oneview/decide.go",
		old:  `	if v.owner == device.PoolOurs && v.hardware.Power != powerOff {`,
		new:  `	if v.owner == device.PoolTaken && v.hardware.Power != powerOff {`,
		pkg:  "./internal/oneview", run: "TestAServerThatIgnoresTheShutdownIsSwitchedOff TestEveryChangeFollowsARead",
	},
	{
		name: "a server of another user is not switched off",
		file: "internal/oneview/decide.go",
		old:  `	if v.owner == device.PoolOurs && v.hardware.Power != powerOff {`,
		new:  `	if v.hardware.Power != powerOff {`,
		pkg:  "./internal/oneview", run: "TestASpareProfileOfATakenServerIsRemoved",
	},
	{
		name: "a server of another user gets no profile",
		file: "internal/oneview/decide.go",
		old:  `		return step{}, c.taken(v)`,
		new:  `		return step{done: true}, nil`,
		pkg:  "./internal/oneview", run: "TestATakenServerIsLeftAlone",
	},
	{
		name: "a profile on another server is left alone",
		file: "internal/oneview/decide.go",
		old:  `		v.spare != nil && v.spare.Hardware == c.server.Hardware && v.owner == device.PoolFree:`,
		new:  `		v.spare != nil:`,
		pkg:  "./internal/oneview", run: "TestAProfileOnAnotherServerIsLeftAlone",
	},
	{
		name: "a profile is applied only after its request was recorded",
		file: "internal/oneview/decide.go",
		old:  `	case !c.server.Applying:`,
		new:  `	case false:`,
		pkg:  "./internal/oneview", run: "TestAProfileIsAdoptedByItsNameOnlyWhileOneIsRequested",
	},
	{
		name: "a profile that is not ready is not a success",
		file: "internal/oneview/decide.go",
		old:  `		case v.applied.failed() || v.hardware.State == profileError:`,
		new:  `		case false:`,
		pkg:  "./internal/oneview", run: "TestAProfileThatIsHalfAppliedIsNoSuccess",
	},
	{
		name: "a profile that a crash has left is found before another one is requested",
		file: "internal/oneview/look.go",
		old:  `	v.spare, err = c.findSpare(ctx)`,
		new:  `	v.spare = nil`,
		pkg:  "./internal/oneview", run: "TestASpareProfileOfATakenServerIsRemoved",
	},
	{
		name: "a login that was refused is not repeated",
		file: "internal/oneview/session.go",
		old:  `	if s.refusal != nil && time.Now().Before(s.until) {`,
		new:  `	if s.refusal != nil && time.Now().Before(time.Time{}) {`,
		pkg:  "./internal/oneview", run: "TestARefusedLoginIsNotRepeated",
	},
	{
		name: "a session is not sent to another host by a redirect",
		file: "internal/oneview/session.go",
		old:  `{ return http.ErrUseLastResponse }`,
		new:  `{ return nil }`,
		pkg:  "./internal/oneview", run: "TestNoRedirectIsFollowed",
	},
	{
		name: "a link to another host is not followed",
		file: "internal/oneview/client.go",
		old:  `	if u.Host != "" && (`,
		new:  `	if false && (`,
		pkg:  "./internal/oneview", run: "TestALinkToAnotherHostIsNotFollowed",
	},
	{
		name: "a version that is not known any more gives up no session",
		file: "internal/oneview/session.go",
		old: `			s.version = 0
		}
	}
	return got, err`,
		new: `			s.version, s.token = 0, ""
		}
	}
	return got, err`,
		pkg: "./internal/oneview", run: "TestAnUnknownVersionLeavesNoSessionOpen",
	},
	{
		name: "a login whose caller gives up is not abandoned",
		file: "internal/oneview/session.go",
		old:  `s.send(context.WithoutCancel(ctx), post,`,
		new:  `s.send(ctx, post,`,
		pkg:  "./internal/oneview", run: "TestALoginThatIsCanceledLeavesNoSessionOpen",
	},
	{
		name: "the session is logged out although the call was canceled",
		file: "internal/oneview/session.go",
		old:  `context.WithTimeout(context.WithoutCancel(ctx), s.timing.request)`,
		new:  `context.WithTimeout(ctx, s.timing.request)`,
		pkg:  "./internal/oneview", run: "TestCallsShareOneSessionWhichIsLoggedOut",
	},
	{
		name: "the pages of an appliance end",
		file: "internal/oneview/page.go",
		old:  `	if after >= total || after > maxServers {`,
		new:  `	if after >= total {`,
		pkg:  "./internal/oneview", run: "TestPagesThatShrinkRepeatOrLieEnd",
	},
	{
		name: "a mistake in oneview.yaml is not quoted",
		file: "internal/oneview/file.go",
		old:  `				r.Problem(value, "unknown key in oneview.yaml: the only key is appliances")`,
		new:  `				r.Problem(value, "unknown key %s in oneview.yaml: the only key is appliances", key)`,
		pkg:  "./internal/oneview", run: "TestMistakesInTheFileHaveTheirLineAndNoValue",
	},
	{
		name: "a password is not sent unencrypted to an appliance",
		file: "internal/oneview/file.go",
		old:  `	case a.Base.Scheme == "http" && !a.Insecure:`,
		new:  `	case a.Base.Scheme == "never":`,
		pkg:  "./internal/oneview", run: "TestMistakesInTheFileHaveTheirLineAndNoValue",
	},
}
