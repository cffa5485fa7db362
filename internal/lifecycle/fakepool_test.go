package lifecycle

import (
	"context"
	"fmt"

	"burnish/internal/device"
	"burnish/internal/oneview"
	"burnish/workflows/contract"
)

// fakePool is an appliance with one server, in memory. It knows which profiles exist, which
// one is on the server, and notes what is done to a server of another user.
type fakePool struct {
	oneview.Pools
	uuid     string
	profiles map[string]string // name by URI
	profile  string            // on the server; "" is none
	made     int
	version  int // changes with each change of the server
	calls    []string
	// meanwhile is what others do after Burnish's own act, before the answer to the call.
	meanwhile func(call string)
	// injectFault may fail a call before it has effect, or lose its answer after.
	injectFault func(call string, after bool) error
}

const theirProfile = "/rest/server-profiles/theirs"

func newFakePool() *fakePool {
	return &fakePool{uuid: contract.DeviceUUID("d1"), profiles: map[string]string{}}
}

// take has another user take the server, if it is free.
func (p *fakePool) take() bool {
	if p.profile != "" {
		return false
	}
	p.profile, p.profiles[theirProfile] = theirProfile, "theirs"
	p.version++
	return true
}

// leave has the other user leave it.
func (p *fakePool) leave() {
	if p.taken() {
		p.profile = ""
		p.version++
		delete(p.profiles, theirProfile)
	}
}

// use has another user take the server, if it is free, and leave it again at once.
func (p *fakePool) use() {
	if p.take() {
		p.leave()
	}
}

func (p *fakePool) taken() bool { return p.profile == theirProfile }

// ours counts the profiles that Burnish made and did not remove.
func (p *fakePool) ours() (n int) {
	for _, name := range p.profiles {
		if name == p.uuid {
			n++
		}
	}
	return n
}

func (p *fakePool) found(s oneview.Server) oneview.Found {
	f := oneview.Found{Ownership: device.PoolTaken, Profile: p.profile, Power: "On", Tag: fmt.Sprint(p.version)}
	switch {
	case p.profile == "":
		f.Ownership = device.PoolFree
	case p.profile == s.Recorded, s.Applying && p.profiles[p.profile] == s.UUID:
		f.Ownership = device.PoolOurs
	}
	return f
}

func (p *fakePool) call(name string, do func() (oneview.Found, error)) (oneview.Found, error) {
	p.calls = append(p.calls, name)
	if p.injectFault != nil {
		if err := p.injectFault(name, false); err != nil {
			return oneview.Found{}, err
		}
	}
	f, err := do()
	if p.meanwhile != nil {
		p.meanwhile(name)
	}
	if err == nil && p.injectFault != nil {
		if lost := p.injectFault(name, true); lost != nil {
			return f, lost
		}
	}
	return f, err
}

// Settings is of oneview.Pools.
func (p *fakePool) Settings(string) (oneview.Settings, error) { return oneview.Settings{}, nil }

// Read is of oneview.Pools.
func (p *fakePool) Read(_ context.Context, _ string, s oneview.Server) (oneview.Found, error) {
	return p.call("read", func() (oneview.Found, error) { return p.found(s), nil })
}

// Apply is of oneview.Pools.
func (p *fakePool) Apply(_ context.Context, _ string, s oneview.Server,
	progress oneview.Progress) (oneview.Found, error) {
	return p.call("apply", func() (oneview.Found, error) {
		switch p.found(s).Ownership {
		case device.PoolTaken:
			return oneview.Found{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeServerTaken,
				Message: "another user has the server"}
		case device.PoolFree:
			if f := p.found(s); s.Tag != "" && f.Tag != s.Tag {
				f.Gap = true
				return f, nil
			}
			p.made++
			p.version++
			p.profile = fmt.Sprintf("/rest/server-profiles/ours-%d", p.made)
			p.profiles[p.profile] = s.UUID
		}
		f := p.found(s)
		f.Ownership = device.PoolOurs
		return f, progress(100, "applied")
	})
}

// Remove is of oneview.Pools.
func (p *fakePool) Remove(_ context.Context, _ string, s oneview.Server, _ oneview.Progress) (oneview.Found, error) {
	return p.call("remove", func() (oneview.Found, error) {
		last := s.Tag // the server's after Burnish's own last act
		if p.found(s).Ownership == device.PoolOurs {
			delete(p.profiles, p.profile)
			p.profile = ""
			p.version++
			last = fmt.Sprint(p.version)
		}
		if p.meanwhile != nil {
			p.meanwhile("removed")
		}
		f := p.found(s)
		f.Power, f.Gap = "Off", f.Ownership == device.PoolFree && f.Tag != last
		return f, nil
	})
}

// unreachable is the fault of an appliance that does not answer.
func unreachable() error {
	return &device.Fault{Class: device.Transient, Code: device.CodeApplianceUnreachable, Message: "rack1 does not answer",
		Remedy: "look at the appliance"}
}
