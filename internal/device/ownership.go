package device

// Ownership is who has a server of a shared pool, by the profile on it (S4.1–S4.3).
type Ownership string

// The three owners.
const (
	// PoolFree: no profile is applied.
	PoolFree Ownership = "free"
	// PoolOurs: the applied profile is the one that Burnish has recorded.
	PoolOurs Ownership = "ours"
	// PoolTaken: any other profile is applied.
	PoolTaken Ownership = "taken"
)
