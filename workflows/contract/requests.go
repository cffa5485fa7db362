package contract

import (
	"crypto/sha256"

	"burnish/internal/device"
)

// KeptRequests is how many granted requests of binds a device, or an instance, remembers.
const KeptRequests = 500

// requestDigest is the length of a request's digest: two of 500 requests have the same one with a
// chance of one in 10^14.
const requestDigest = 8

// Requests are the last granted requests of binds (KeptRequests), the latest last: their digests,
// one after the other, because each idle device of a worker has them in memory.
type Requests []byte

func digestOf(instance, request string) [requestDigest]byte {
	sum := sha256.Sum256([]byte(device.TenantUUID(instance) + "\n" + request))
	return [requestDigest]byte(sum[:requestDigest])
}

// With returns the requests with one more, which is the latest; one that has no ID changes nothing.
func (l Requests) With(instance, request string) Requests {
	if request == "" || l.Has(instance, request) {
		return l
	}
	kept := l[max(len(l)-(KeptRequests-1)*requestDigest, 0):]
	digest := digestOf(instance, request)
	return append(append(make(Requests, 0, len(kept)+requestDigest), kept...), digest[:]...)
}

// Has says that a request of an instance is one of them.
func (l Requests) Has(instance, request string) bool {
	digest := digestOf(instance, request)
	for rest := l; len(rest) >= requestDigest; rest = rest[requestDigest:] {
		if [requestDigest]byte(rest[:requestDigest]) == digest {
			return true
		}
	}
	return false
}
