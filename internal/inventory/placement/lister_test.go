package placement_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/inventory"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
)

// seenBy collects what a Lister returns, by UUID.
func seenBy(t *testing.T,
	show func(each func(inventory.ProviderSnapshot) error) error) map[string]inventory.ProviderSnapshot {
	t.Helper()
	all := map[string]inventory.ProviderSnapshot{}
	var busy atomic.Int64
	require.NoError(t, show(func(s inventory.ProviderSnapshot) error {
		if busy.Add(1) != 1 {
			return errors.New("two at once")
		}
		defer busy.Add(-1)
		if _, twice := all[s.UUID]; twice {
			return errors.New("shown twice")
		}
		all[s.UUID] = s
		return nil
	}))
	return all
}

func (s *testPlacement) listNova(t *testing.T, hosts ...string) map[string]inventory.ProviderSnapshot {
	t.Helper()
	return seenBy(t, func(each func(inventory.ProviderSnapshot) error) error {
		return s.store.ListNova(t.Context(), hosts, nil, each)
	})
}

// S0.11
func TestListNovaShowsEachProvider(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{NovaHosts: map[string]string{"Cmp_7": "node-7"}})
	ctx := t.Context()
	first, second := s.nova.Host("cmp_7"), s.nova.Host("node-8")
	var devices []string
	for i := range 8 {
		root, host := first, "cmp_7"
		if i >= 6 {
			root, host = second, "node-8"
		}
		devices = append(devices, s.nova.Device(root, host, fmt.Sprintf("0000:3b:00.%d", i), otuClass))
	}
	consumer := uuid.NewString()
	require.NoError(t, s.nova.Allocate(ctx, devices[1], consumer)) // about to be burned
	require.NoError(t, s.nova.Allocate(ctx, devices[2], uuid.NewString()))
	s.nova.Burn(devices[2])
	s.nova.Burn(devices[3])
	two := uuid.NewString() // an invalid provider, which must not hide others
	s.nova.Class("CUSTOM_B")
	s.nova.Provider(two, "cmp_7_0000:3B:01.0", first, otuClass, 0, placement.OneTimeUse)
	status, text, err := s.nova.Do(ctx, http.MethodPut, "/resource_providers/"+two+"/inventories", map[string]any{
		"resource_provider_generation": 2,
		"inventories": map[string]any{otuClass: map[string]any{"total": 1},
			"CUSTOM_B": map[string]any{"total": 1}},
	}, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)
	odd := uuid.NewString()
	s.nova.Provider(odd, "WhatIsThis", "", otuClass, 0, placement.OneTimeUse)

	want := func(i, reserved, used int) {
		t.Helper()
		got := s.listNova(t)
		require.Len(t, got, len(devices)+2)
		d := got[devices[i]]
		v, err := inventory.Read(ctx, s.store, devices[i])
		require.NoError(t, err)
		require.ElementsMatch(t, v.Consumers, d.Consumers)
		v.Consumers = d.Consumers
		require.Equal(t, v, d.Inventory)
		require.Equal(t, []int{reserved, used}, []int{d.Reserved, d.Used})
	}
	for range 2 { // with an empty cache, and with a full one
		want(0, 0, 0)
		want(1, 0, 1)
		want(2, 1, 1)
		want(3, 1, 0)
	}
	got := s.listNova(t)
	require.Equal(t, inventory.ProviderSnapshot{
		Provider: inventory.Provider{UUID: devices[0], Name: "cmp_7_0000:3B:00.0", Class: otuClass},
		Device:   "node-7_0000:3b:00.0", Host: "node-7", Inventory: got[devices[0]].Inventory,
	}, got[devices[0]])
	require.Zero(t, got[two].Total)
	require.Equal(t, 1, strings.Count(s.log.String(), "is not valid for one device"), "logged once")
	require.Equal(t, "whatisthis", got[odd].Device)

	// A release does not change the generation, and is detected nevertheless.
	require.NoError(t, s.nova.Deallocate(ctx, "", consumer))
	want(1, 0, 0)
	// A provider that another client has written is read again.
	s.nova.SetReserved(devices[3], 0)
	want(3, 0, 0)
	s.nova.Burn(devices[4])
	want(4, 1, 0)

	// A list of free providers that is truncated, fails, or is outdated costs requests, and
	// hides no provider.
	for _, do := range []openstack.Injection{
		{Status: 500}, {Status: 200, Body: `{}`}, {Status: 200, Body: `{"allocation_requests": [], "provider_summaries": {}}`},
		{After: func() { s.nova.Burn(devices[5]) }},
	} {
		undo := s.recorder.Inject(openstack.Match{Path: "/allocation_candidates"}, do)
		want(0, 0, 0)
		want(4, 1, 0)
		undo()
	}
	want(5, 1, 0)

	// One host, by its tree; also after its compute node was re-created.
	s.recorder.Reset()
	require.Len(t, s.listNova(t, "Node-8"), 2)
	for _, e := range s.recorder.Exchanges() {
		require.NotContains(t, e.Path, devices[0])
	}
	require.Contains(t, s.recorder.Exchanges()[0].Path, "in_tree="+second)
	for _, id := range []string{devices[6], devices[7], second} {
		s.nova.Delete(id)
	}
	root := s.nova.Host("node-8")
	recreated := s.nova.Device(root, "node-8", "0000:3b:00.6", otuClass)
	got = s.listNova(t, "node-8")
	require.Len(t, got, 1)
	require.Contains(t, got, recreated)
	require.Empty(t, s.listNova(t, "node-99"))
}

func TestListOwnShowsTheGivenProviders(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	var uuids []string
	for range 5 {
		p := inventorytest.NewProvider()
		require.NoError(t, s.store.Create(t.Context(), p))
		uuids = append(uuids, p.UUID)
	}
	others := s.nova.Device(s.nova.Host("node-7"), "node-7", "0000:3b:00.0", otuClass)
	require.NoError(t, s.store.Delete(t.Context(), uuids[4]))
	asked := append([]string{others, uuid.NewString()}, uuids[1:]...)
	got := seenBy(t, func(each func(inventory.ProviderSnapshot) error) error {
		return s.store.ListOwn(t.Context(), asked, each)
	})
	require.Len(t, got, 3)
	for _, id := range uuids[1:4] {
		require.True(t, got[id].Burned())
		require.Equal(t, "host", got[id].Host)
		require.Empty(t, got[id].Device)
		require.Equal(t, "CUSTOM_BURNISH_TEST", got[id].Class)
	}
	require.NoError(t, s.store.ListOwn(t.Context(), nil, nil))
}

func TestListingEndsWithTheCallersErrorOrContext(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	root := s.nova.Host("node-7")
	for i := range 8 {
		s.nova.Device(root, "node-7", fmt.Sprintf("0000:3b:00.%d", i), otuClass)
	}
	enough := errors.New("enough")
	calls := 0
	err := s.store.ListNova(t.Context(), nil, nil, func(inventory.ProviderSnapshot) error { calls++; return enough })
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, calls)

	ctx, cancel := context.WithCancel(t.Context())
	err = s.store.ListNova(ctx, nil, nil, func(inventory.ProviderSnapshot) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	err = s.store.ListNova(ctx, nil, nil, func(inventory.ProviderSnapshot) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}

// The requests of a reconciliation of n providers are counted; internal/testkit/bench does
// the same for a thousand.
func TestRequestsOfAReconciliation(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	const hosts, each = 10, 8
	const n = hosts * each
	s.nova.Class(otuClass)
	var rows []openstack.Row
	var devices []string
	for h := range hosts {
		root := openstack.Row{UUID: uuid.NewString(), Name: fmt.Sprintf("node-%d", h), Class: "VCPU"}
		rows = append(rows, root)
		for d := range each {
			id := uuid.NewString()
			devices = append(devices, id)
			rows = append(rows, openstack.Row{
				UUID: id, Name: fmt.Sprintf("node-%d_0000:3B:00.%d", h, d), Root: root.UUID, Class: otuClass,
				Traits: []string{placement.OneTimeUse, "COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"},
			})
		}
	}
	require.NoError(t, s.server.Fill(t.Context(), rows))
	count := func(what string, most int) {
		t.Helper()
		s.recorder.Reset()
		got := s.listNova(t)
		require.Len(t, got, len(devices))
		t.Logf("%s: %d requests, %d at once", what, s.recorder.Count(), s.recorder.MaxInFlight())
		require.LessOrEqual(t, s.recorder.Count(), most, what)
		require.LessOrEqual(t, s.recorder.MaxInFlight(), 8)
	}
	allocated := make([]string, len(devices))
	for i := range allocated {
		allocated[i] = uuid.NewString()
	}
	require.NoError(t, s.server.Allocate(t.Context(), devices, allocated))
	count("all allocated, nothing in memory", 2*n+10)
	count("all allocated, unchanged", n+10)
	require.NoError(t, s.server.Deallocate(t.Context(), allocated))
	count("all free, unchanged", 20)
	for _, id := range devices[:10] {
		s.nova.Burn(id)
	}
	count("all free but ten", 40)
	// Of providers of which few are wanted, whatever they have become, only these are read.
	few := map[string]bool{"node-3_0000:3b:00.1": true, "node-4_0000:3b:00.2": true, "node-5_0000:3b:00.3": true}
	countWanted := func(what string, wanted map[string]bool, most int) map[string]inventory.ProviderSnapshot {
		t.Helper()
		s.recorder.Reset()
		got := seenBy(t, func(each func(inventory.ProviderSnapshot) error) error {
			return s.store.ListNova(t.Context(), nil, func(name string) bool { return wanted[name] }, each)
		})
		require.Len(t, got, len(devices))
		for _, p := range got {
			require.Equal(t, !wanted[p.Device], p.ListedOnly, p.Device)
			require.Equal(t, wanted[p.Device], p.Total == 1, p.Device)
		}
		t.Logf("%s: %d requests, %d at once", what, s.recorder.Count(), s.recorder.MaxInFlight())
		require.LessOrEqual(t, s.recorder.Count(), most, what)
		return got
	}
	s.store = s.open(t, placement.Settings{})
	countWanted("none wanted, nothing in memory", nil, 2) // one finds the service
	s.store = s.open(t, placement.Settings{})
	countWanted("three wanted, nothing in memory", few, 1+1+3+3)
	countWanted("three wanted, unchanged", few, 1+3)
	for _, id := range devices[10:20] {
		s.nova.Burn(id)
	}
	countWanted("three wanted, the others changed", few, 1+3)
	consumer := uuid.NewString()
	require.NoError(t, s.nova.Allocate(t.Context(), devices[3*each+1], consumer))
	got := countWanted("three wanted, one of them changed", few, 1+3+1)
	require.Equal(t, []string{consumer}, got[devices[3*each+1]].Consumers)
	require.NoError(t, s.nova.Deallocate(t.Context(), "", consumer))
	got = countWanted("three wanted, one of them released", few, 1+3)
	require.Zero(t, got[devices[3*each+1]].Used, "a release changes no generation")
	many := map[string]bool{}
	for h := range 8 {
		many[fmt.Sprintf("node-%d_0000:3b:00.7", h+2)] = true
	}
	countWanted("eight wanted, nothing in memory", many, 1+8+1)
	countWanted("eight wanted and free: one request for the candidates", many, 2)

	// One host costs only its own requests.
	s.recorder.Reset()
	require.Len(t, s.listNova(t, "node-3"), each)
	require.LessOrEqual(t, s.recorder.Count(), each+2)
}
