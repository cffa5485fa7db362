package guest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// The headers by which Nova's metadata proxy names the instance that it speaks for.
const (
	instanceHeader  = "X-Instance-ID"
	tenantHeader    = "X-Tenant-ID"
	signatureHeader = "X-Instance-ID-Signature"
)

// identity is whom a request names: an instance of a project if the proxy has signed it,
// otherwise the guest that has the address.
type identity struct {
	instance, project string
	address           netip.Addr
}

// caller is what the identity's requests are counted by.
func (i identity) caller() string {
	if i.instance != "" {
		return i.instance
	}
	if network, err := i.address.Prefix(64); err == nil && i.address.Is6() {
		return network.String()
	}
	return i.address.String()
}

// has says whether the instance is the one that the request names. An instance without a
// project is no project's.
func (i identity) has(status contract.InstanceStatus) bool {
	if i.instance != "" {
		return status.UUID == i.instance && status.Project != "" && status.Project == i.project
	}
	return slices.ContainsFunc(status.Addresses, func(address string) bool {
		given, err := netip.ParseAddr(address)
		return err == nil && given.Unmap() == i.address
	})
}

// identify reads whom the request names. One of the proxy's headers is enough for the
// request to be the proxy's: then it must have all of them, and the address is not looked at.
// No other header counts, X-Forwarded-For neither: a guest may send them.
func (s *service) identify(r *http.Request) (identity, error) {
	given := map[string]string{}
	signed := false
	for _, name := range []string{instanceHeader, tenantHeader, signatureHeader} {
		values := r.Header.Values(name)
		signed = signed || len(values) > 0
		if len(values) > 1 {
			return identity{}, &refusal{http.StatusBadRequest, "the header " + name + " is given more than once"}
		}
		if len(values) == 1 {
			given[name] = values[0]
		}
	}
	if !signed {
		return s.byAddress(r)
	}
	for _, name := range []string{instanceHeader, tenantHeader, signatureHeader} {
		if given[name] == "" {
			return identity{}, &refusal{http.StatusBadRequest, "the header " + name + " is missing"}
		}
	}
	if err := s.verify(given[instanceHeader], given[signatureHeader]); err != nil {
		// Neither signature is logged: the one that was sent may be right for another secret.
		s.warn("a request for metadata is refused: its signature is not valid, or cannot be checked", "instance",
			given[instanceHeader], "from", r.RemoteAddr, "error", err)
		return identity{}, err
	}
	id, err := uuid.Parse(given[instanceHeader])
	if err != nil || id.String() != given[instanceHeader] {
		return identity{}, errNoInstance
	}
	return identity{instance: given[instanceHeader], project: given[tenantHeader]}, nil
}

// verify checks the signature of an instance's ID, which has lower-case digits.
func (s *service) verify(instance, signature string) error {
	if s.Secret == nil {
		return &refusal{http.StatusForbidden,
			"this service takes no signed requests: BURNISH_METADATA_SECRET_FILE is not set"}
	}
	secret, err := s.Secret()
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, "the secret cannot be read"}
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(instance)) // which never fails
	if !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(signature)) {
		return &refusal{http.StatusForbidden, "the signature is not valid"}
	}
	return nil
}

// byAddress is the identity of the connection's peer. An address that counts on one network
// interface alone belongs to no one guest: another may have it on another one.
func (s *service) byAddress(r *http.Request) (identity, error) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || peer.Addr().Zone() != "" {
		return identity{}, errNoInstance
	}
	return identity{address: peer.Addr().Unmap()}, nil
}

// find gives the instance of an identity, with the devices that it has now.
func (s *service) find(ctx context.Context, who identity) (contract.InstanceStatus, error) {
	var (
		status contract.InstanceStatus
		err    error
	)
	if who.instance != "" {
		status, err = s.Instances.Instance(ctx, who.instance)
	} else {
		status, err = s.Instances.InstanceByAddress(ctx, who.address.String())
	}
	switch {
	case client.NotFound(err):
		return status, errNoInstance
	case err != nil:
		return status, err
	case !who.has(status):
		if who.instance != "" && status.Project == "" {
			s.warn("a signed request for metadata is refused: the instance was bound without --project", "instance",
				who.instance)
		}
		return status, errNoInstance
	}
	status, found, err := current(ctx, s.Instances, status)
	if err == nil && !found {
		err = errNoInstance
	}
	return status, err
}
