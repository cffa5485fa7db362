package device

// Setup is how a server is set up, as far as a tenant can change it besides its drives and its
// BIOS: by item, each with its entries and their values. An item that the BMC does not show is
// not there. It holds no secret.
type Setup map[string]map[string]string

// SettingGolden is the setting of a server's driver that names the golden profile of the policy.
const SettingGolden = "golden"

// The items of a Setup.
const (
	// SetupAccounts are the BMC's accounts, each with its role and whether it is enabled.
	SetupAccounts = "accounts"
	// SetupKeys are the keys of these accounts, by digest.
	SetupKeys = "keys"
	// SetupSessions are the open sessions. None is ever recorded.
	SetupSessions = "sessions"
	// SetupSubscriptions are those to the BMC's events, by destination.
	SetupSubscriptions = "subscriptions"
	// SetupMedia are the virtual media that are inserted, each with its image.
	SetupMedia = "media"
	// SetupInterfaces are the ways from the server to its BMC: the network between them, and KCS.
	SetupInterfaces = "host_interfaces"
	// SetupProtocols are the BMC's network protocols.
	SetupProtocols = "protocols"
	// SetupLockdown is whether the BMC refuses changes.
	SetupLockdown = "lockdown"
	// SetupCertificates are the certificates with which the BMC proves who it is, by digest.
	SetupCertificates = "certificates"
	// SetupPasswords are the BIOS passwords, each with whether it is set.
	SetupPasswords = "bios_passwords"
	// SetupOverride is what the next start boots instead of the order.
	SetupOverride = "boot_override"
	// SetupBoot is the boot order and what can be booted.
	SetupBoot = "boot_order"
	// SetupSecureBoot is whether Secure Boot is on, and its mode.
	SetupSecureBoot = "secure_boot"
	// SetupSecureBootKeys are the databases of Secure Boot, each with the digests of what it holds.
	SetupSecureBootKeys = "secure_boot_keys"
	// SetupTPM are the TPMs.
	SetupTPM = "tpm"
)

// SetupItems are the items in the order in which they are shown.
var SetupItems = []string{SetupAccounts, SetupKeys, SetupSessions, SetupSubscriptions, SetupMedia, SetupInterfaces,
	SetupProtocols, SetupLockdown, SetupCertificates, SetupPasswords, SetupOverride, SetupBoot, SetupSecureBoot,
	SetupSecureBootKeys, SetupTPM}

// RestoreArgs are the arguments of the steps that restore how a server was set up. The items of Setup take
// the place of those that were recorded. Golden without Setup: the policy does not know the profile.
type RestoreArgs struct {
	Golden  string   `json:"golden,omitempty"`
	Setup   Setup    `json:"setup,omitempty"`
	Require []string `json:"require,omitempty"`
}
