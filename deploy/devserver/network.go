package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Internal ports come from below the range that kernels hand to outgoing
// connections, so that none of those takes a port between choice and use.
const (
	firstInternalPort = 20000
	lastInternalPort  = 32000
	portAttempts      = 200
)

// network says where each listener of this process goes.
type network struct {
	ip       net.IP
	frontend int
	ui       int // 0: off

	// The other services listen on loopback and have no callers but the
	// process itself.
	history, matching, worker int
}

// planNetwork picks the ports and proves that each is free now. An error says
// which port is taken and which flag moves it.
func planNetwork(opts options) (network, error) {
	n := network{ip: opts.ip, frontend: opts.port, ui: opts.uiPort}
	var held heldPorts

	var err error
	if n.frontend == 0 {
		n.frontend, err = held.pick(n.ip)
	} else {
		err = held.take("temporal", "--port", n.ip, n.frontend)
	}
	if n.ui == uiPortUnset {
		n.ui = n.frontend + uiPortOffset
	}
	if err == nil && n.ui != 0 {
		err = held.take("web ui", "--ui-port", n.ip, n.ui)
	}
	for _, port := range []*int{&n.history, &n.matching, &n.worker} {
		if err == nil {
			*port, err = held.pick(loopback())
		}
	}
	return n, errors.Join(err, held.release())
}

func (n network) frontendAddress() string { return joinHostPort(n.ip, n.frontend) }
func (n network) uiAddress() string       { return joinHostPort(n.reachableIP(), n.ui) }

// dialAddress is where this process reaches its own frontend: one cannot dial
// "every address".
func (n network) dialAddress() string { return joinHostPort(n.reachableIP(), n.frontend) }

func (n network) reachableIP() net.IP {
	switch {
	case !n.ip.IsUnspecified():
		return n.ip
	case n.ip.To4() != nil:
		return loopback()
	default:
		return net.IPv6loopback
	}
}

// heldPorts keeps the chosen ports bound until all are chosen, so that no two
// are the same.
type heldPorts []net.Listener

// take binds a port that was asked for by flag.
func (h *heldPorts) take(what, flag string, ip net.IP, port int) error {
	listener, err := net.Listen("tcp", joinHostPort(ip, port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %d on %s (%s) is in use: stop what listens there, or choose another with %s", port,
			ip, what, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("address %s does not belong to this machine: choose another with --ip", ip)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %d on %s (%s) needs more rights than this user has: choose one above 1023 with %s", port,
			ip, what, flag)
	case err != nil:
		return fmt.Errorf("listen for %s: %w", what, err)
	}
	*h = append(*h, listener)
	return nil
}

// pick binds a free internal port.
func (h *heldPorts) pick(ip net.IP) (int, error) {
	var last error
	for range portAttempts {
		port := firstInternalPort + rand.IntN(lastInternalPort-firstInternalPort)
		listener, err := net.Listen("tcp", joinHostPort(ip, port))
		if err == nil {
			*h = append(*h, listener)
			return port, nil
		}
		last = err
	}
	return 0, fmt.Errorf("no free port on %s between %d and %d: %w", ip, firstInternalPort, lastInternalPort, last)
}

func (h *heldPorts) release() error {
	var errs []error
	for _, listener := range *h {
		errs = append(errs, listener.Close())
	}
	return errors.Join(errs...)
}

func joinHostPort(ip net.IP, port int) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}
