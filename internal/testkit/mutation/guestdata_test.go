package mutation

const (
	guestIdentity = "internal/api/guest/identity.go"
	guestDocument = "internal/api/guest/document.go"
	guestService  = "internal/api/guest/service.go"
)

// guestMutations let the metadata service show a guest's document to others, or a document
// that is wrong.
var guestMutations = []mutation{
	{
		rule: "S1.22", name: "a header of the metadata proxy is given once",
		file: guestIdentity,
		old: `		if len(values) > 1 {
			return identity{}, &refusal{http.StatusBadRequest, "the header " + name + " is given more than once"}
		}
		if len(values) == 1 {`,
		new: `		if len(values) > 0 {`,
		pkg: "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "a request of the metadata proxy has all three headers",
		file: guestIdentity,
		old:  `		if given[name] == "" {`,
		new:  `		if given[name] == "" && name == instanceHeader {`,
		pkg:  "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "the signature is the instance's",
		file: guestIdentity,
		old:  `	mac.Write([]byte(instance)) // which never fails`,
		new:  `	mac.Write([]byte(signature)[:0])`,
		pkg:  "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "a wrong signature is refused",
		file: guestIdentity,
		old:  `[]byte(signature)) {`,
		new:  `[]byte(signature)) && len(signature) < 64 {`,
		pkg:  "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "upper-case digits are not the signature",
		file: guestIdentity,
		old:  `	if !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(signature)) {`,
		new:  `	if sent, err := hex.DecodeString(signature); err != nil || !hmac.Equal(mac.Sum(nil), sent) {`,
		pkg:  "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "the right signature stands nowhere",
		file: guestIdentity,
		old:  `"the signature is not valid"}`,
		new:  `"the signature is not " + hex.EncodeToString(mac.Sum(nil))}`,
		pkg:  "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "the tenant is the instance's project",
		file: guestIdentity,
		old:  ` && status.Project == i.project`,
		new:  ``,
		pkg:  "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "an instance without a project is no project's",
		file: guestIdentity,
		old:  `status.Project != "" && status.Project == i.project`,
		new:  `(status.Project == "" || status.Project == i.project)`,
		pkg:  "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "an address in an unsigned header counts for nothing",
		file: guestIdentity,
		old:  `	peer, err := netip.ParseAddrPort(r.RemoteAddr)`,
		new: `	if given, err := netip.ParseAddr(r.Header.Get("X-Forwarded-For")); err == nil {
		return identity{address: given}, nil
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)`,
		pkg: "./internal/api/guest", run: "TestTheInstanceIsIdentifiedAsNovasProxyDoes",
	},
	{
		rule: "S1.22", name: "a link-local address is no guest's",
		file: guestIdentity,
		old: `	if err != nil || peer.Addr().Zone() != "" {
		return identity{}, errNoInstance
	}
	return identity{address: peer.Addr().Unmap()}, nil`,
		new: `	if err != nil {
		return identity{}, errNoInstance
	}
	return identity{address: peer.Addr().Unmap().WithZone("")}, nil`,
		pkg: "./internal/api/guest", run: "TestAGuestIsKnownByItsAddress",
	},
	{
		rule: "S1.22", name: "an instance has the address that the lease says",
		file: guestIdentity,
		old:  `		return err == nil && given.Unmap() == i.address`,
		new:  `		return err == nil && given.IsValid()`,
		pkg:  "./internal/api/guest", run: "TestAGuestIsKnownByItsAddress",
	},
	{
		rule: "S1.22", name: "a signed request never counts by its address",
		file: guestIdentity,
		old:  `	if !signed {`,
		new:  `	if !signed || s.Secret == nil {`,
		pkg:  "./internal/api/guest", run: "TestWithoutASecretOnlyAddressesCount",
	},
	{
		rule: "S1.36", name: "an instance that gives its devices back has no document",
		file: guestDocument,
		old:  `	case contract.InstanceBinding, contract.InstanceActive, contract.InstanceMigrating:`,
		new:  `	case contract.InstanceBinding, contract.InstanceActive, contract.InstanceMigrating, contract.InstanceReleasing:`,
		pkg:  "./internal/api/guest", run: "TestOnlyALivingInstanceHasADocument",
	},
	{
		rule: "S1.36", name: "a device that another instance has is not shown",
		file: guestDocument,
		old:  ` && *e.Status.InstanceUUID == status.UUID`,
		new:  ``,
		pkg:  "./internal/api/guest", run: "TestADeviceThatTheInstanceDoesNotHaveIsNotShown",
	},
	{
		rule: "S1.21", name: "no document leaves out a device that cannot be asked",
		file: guestDocument,
		old:  `			errs[i] = err`,
		new:  ``,
		pkg:  "./internal/api/guest", run: "TestAShortAbsenceIsWaitedFor",
	},
	{
		rule: "S1.20", name: "a document that the schema does not allow is not sent",
		file: "internal/nova/metadata/metadata.go",
		old:  `	if err := Validate(b.Bytes()); err != nil {`,
		new:  `	if err := Validate(b.Bytes()); err != nil && len(d.Devices) == 0 {`,
		pkg:  "./internal/api/guest", run: "TestADocumentThatIsNotValidIsNotSent",
	},
	{
		rule: "S1.22", name: "the metadata service serves nothing else",
		file: guestService,
		old:  `	if !ok || !slices.Contains(versions, strings.TrimPrefix(version, "/")) || !strings.HasPrefix(version, "/") {`,
		new:  `	if !ok || slices.Contains(versions, version) {`,
		pkg:  "./internal/api/guest", run: "TestNothingElseIsServed",
	},
	{
		rule: "S1.22", name: "the metadata service cuts off slow senders",
		file: guestService,
		old:  `	web.IdleTimeout, web.WriteTimeout = idleTimeout, writeTimeout`,
		new:  `	web.WriteTimeout = writeTimeout`,
		pkg:  "./internal/api/guest", run: "TestSlowSendersAreCutOff",
	},
	{
		rule: "S2.76", name: "a guest's document in the API has a rule of its own",
		file: "internal/api/instances.go",
		old:  `			Rule: ruleMetadata, Out`,
		new:  `			Rule: ruleGet, Out`,
		pkg:  "./internal/api", run: "TestInstancesAreShown",
	},
	{
		rule: "S2.76", name: "a request's key is its instance's",
		file: "internal/api/request.go",
		old:  `cmp.Or(c.name, c.instance)`,
		new:  `c.name`,
		pkg:  "./internal/api", run: "TestRepeatedChangesOfInstancesAreOne",
	},
}
