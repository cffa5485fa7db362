package placement_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
	"burnish/internal/testkit/testlog"
)

// testPlacement is a Placement with its Recorder, Nova, and a store on it.
type testPlacement struct {
	server   *openstack.Server
	recorder *openstack.Recorder
	nova     *openstack.Scheduler
	store    *placement.Store
	log      *testlog.Log
}

func newTestPlacement(t *testing.T, o openstack.Options, settings placement.Settings) *testPlacement {
	t.Helper()
	s := &testPlacement{server: openstack.Start(t, o), log: &testlog.Log{}}
	s.recorder = openstack.Record(t, s.server.URL)
	s.nova = openstack.NewScheduler(t, s.recorder.URL)
	s.store = s.open(t, settings)
	s.recorder.Reset()
	return s
}

// open makes another store, as another worker has one.
func (s *testPlacement) open(t *testing.T, settings placement.Settings) *placement.Store {
	t.Helper()
	if settings.Getenv == nil {
		settings.Getenv = openstack.Noauth(s.recorder.URL)
	}
	settings.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store, err := placement.Open(t.Context(), settings)
	require.NoError(t, err)
	return store
}

// free makes a provider of Burnish's that may be allocated.
func (s *testPlacement) free(t *testing.T) (inventory.Provider, int64) {
	t.Helper()
	p := inventorytest.NewProvider()
	v, err := inventory.EnsureProvider(t.Context(), s.store, p)
	require.NoError(t, err)
	v, err = inventory.Unreserve(t.Context(), s.store, p.UUID, v.Generation)
	require.NoError(t, err)
	s.recorder.Reset()
	return p, v.Generation
}

func TestPlacementStore(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	inventorytest.Run(t, func(*testing.T) inventorytest.Fixture {
		return inventorytest.Fixture{
			Store: s.store, Allocate: s.nova.Allocate, Deallocate: s.nova.Deallocate,
			Open: func(t *testing.T) inventory.Store { return s.open(t, placement.Settings{}) },
		}
	})
}

// A worker that has just started needs a third one, to read the inventory that it writes
// back.
//
// F5
func TestUnreserveIsTwoRequests(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	const read, put = "GET /resource_providers/*/inventories", "PUT /resource_providers/*/inventories/CUSTOM_BURNISH_TEST"
	for _, calls := range [][]string{{put, read}, {read, put, read}} {
		p := inventorytest.NewProvider()
		v, err := inventory.EnsureProvider(t.Context(), s.store, p)
		require.NoError(t, err)
		store := s.store
		if len(calls) == 3 {
			store = s.open(t, placement.Settings{})
		}
		s.recorder.Reset()
		_, err = inventory.Unreserve(t.Context(), store, p.UUID, v.Generation)
		require.NoError(t, err)
		s.recorder.RequireCalls(t, calls...)
	}
}

// F5
func TestPutReservedKeepsTheRecordAndTheCallersGeneration(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	ctx, id := t.Context(), uuid.NewString()
	s.nova.Provider(id, "odd", "", "CUSTOM_ODD", 0)
	has, err := s.nova.Inventory(ctx, id)
	require.NoError(t, err)
	odd := map[string]any{"total": 1.0, "reserved": 1.0, "min_unit": 1.0, "max_unit": 3.0, "step_size": 1.0,
		"allocation_ratio": 1.1}
	put := map[string]any{"resource_provider_generation": has.Generation}
	for name, value := range odd {
		put[name] = value
	}
	status, answer, err := s.nova.Do(ctx, http.MethodPut, "/resource_providers/"+id+"/inventories/CUSTOM_ODD", put, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)

	for _, reserved := range []int{1, 0, 1} {
		st, err := s.store.Reservation(ctx, id)
		require.NoError(t, err)
		st, err = s.store.PutReserved(ctx, id, st.Generation, reserved, nil)
		require.NoError(t, err)
		odd["reserved"] = float64(reserved)
		has, err = s.nova.Inventory(ctx, id)
		require.NoError(t, err)
		require.Equal(t, odd, has.Fields)
		require.Equal(t, has.Generation, st.Generation)
	}

	// A generation that was read with the class is never used for a write.
	stale := has.Generation
	s.nova.SetReserved(id, 1)
	fresh := s.open(t, placement.Settings{})
	for _, store := range []*placement.Store{s.store, fresh} {
		for _, generation := range []int64{stale, stale + 9} {
			_, err = store.PutReserved(ctx, id, generation, 0, nil)
			inventorytest.RequireCode(t, device.CodeConflict, err)
		}
	}
	has, err = s.nova.Inventory(ctx, id)
	require.NoError(t, err)
	require.EqualValues(t, 1, has.Fields["reserved"])
}

// S0.14
func TestMoreThanOneClassOrNone(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	two, none := uuid.NewString(), uuid.NewString()
	s.nova.Provider(none, "none", "", "", 0)
	s.nova.Provider(two, "two", "", "CUSTOM_A", 0)
	s.nova.Class("CUSTOM_B")
	status, answer, err := s.nova.Do(t.Context(), http.MethodPut, "/resource_providers/"+two+"/inventories",
		map[string]any{
			"resource_provider_generation": 1,
			"inventories": map[string]any{"CUSTOM_A": map[string]any{"total": 1},
				"CUSTOM_B": map[string]any{"total": 1}},
		}, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
	_, err = s.store.Reservation(t.Context(), two)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	require.ErrorContains(t, err, "CUSTOM_A, CUSTOM_B")
	_, err = s.store.PutReserved(t.Context(), two, 2, 1, nil)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)

	st, err := s.store.Reservation(t.Context(), none)
	require.NoError(t, err)
	require.Zero(t, st.Total)
	_, err = s.store.PutReserved(t.Context(), none, 0, 1, nil)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	_, err = inventory.EnsureReserved(t.Context(), s.store, none, nil, inventory.Holder{})
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
}

// It is one request without consumers, and one more to name them.
//
// F6
func TestUsagesNamesConsumers(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, _ := s.free(t)
	u, err := s.store.Usages(t.Context(), p.UUID)
	require.NoError(t, err)
	require.Zero(t, u.Used)
	s.recorder.RequireCalls(t, "GET /resource_providers/*/usages")

	consumer := uuid.NewString()
	require.NoError(t, s.nova.Allocate(t.Context(), p.UUID, consumer))
	s.recorder.Reset()
	u, err = s.store.Usages(t.Context(), p.UUID)
	require.NoError(t, err)
	require.Equal(t, []string{consumer}, u.Consumers)
	s.recorder.RequireCalls(t, "GET /resource_providers/*/usages", "GET /resource_providers/*/allocations")

	// Released between the two requests, which the generation does not show.
	s.recorder.Inject(openstack.Match{Method: http.MethodGet, Path: "/usages$", Nth: 1},
		openstack.Injection{After: func() {
			if err := s.nova.Deallocate(context.Background(), p.UUID, consumer); err != nil {
				t.Error(err)
			}
		}})
	u, err = s.store.Usages(t.Context(), p.UUID)
	require.NoError(t, err)
	require.Zero(t, u.Used)
	require.Empty(t, u.Consumers)
}

// The connection breaks before and after each request of each call, but for Create's (see
// TestPartialCreateIsCompleted): the outcome is unknown, and a second call succeeds.
//
// F5
func TestLostAnswers(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	ctx := t.Context()
	put := func(p inventory.Provider) error {
		st, err := s.store.Reservation(ctx, p.UUID)
		if err == nil {
			_, err = s.store.PutReserved(ctx, p.UUID, st.Generation, 1, nil)
		}
		return err
	}
	for name, call := range map[string]func(inventory.Provider) error{
		"Usages":      func(p inventory.Provider) error { _, err := s.store.Usages(ctx, p.UUID); return err },
		"Stock":       func(p inventory.Provider) error { _, err := s.store.Reservation(ctx, p.UUID); return err },
		"PutReserved": put,
		"Delete":      func(p inventory.Provider) error { return s.store.Delete(ctx, p.UUID) },
	} {
		for what, do := range map[string]openstack.Injection{"Dropped": {Drop: true}, "Lost": {LoseAnswer: true}} {
			t.Run(name+what, func(t *testing.T) {
				for nth := 1; ; nth++ {
					p := inventorytest.NewProvider()
					require.NoError(t, s.store.Create(ctx, p))
					s.recorder.RequireDirtyIsBurned(t, func(id string) bool { return id == p.UUID })
					s.recorder.Reset()
					undo := s.recorder.Inject(openstack.Match{Nth: nth}, do)
					err := call(p)
					undo()
					if s.recorder.Count() < nth {
						require.NoError(t, err)
						require.Greater(t, nth, 1)
						return
					}
					if err == nil { // Go's own transport repeats what only reads
						require.Equal(t, http.MethodGet, s.recorder.Exchanges()[nth-1].Method)
						continue
					}
					inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
					require.NoError(t, call(p), "after request %d: %v", nth, s.recorder.Calls())
				}
			})
		}
	}
}

func TestServiceTrouble(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, _ := s.free(t)
	s.store = s.open(t, placement.Settings{Timeout: time.Second})
	held := make(chan struct{})
	defer close(held)
	html := "<html><body>404 - default backend\nno such service</body></html>"
	for name, do := range map[string]openstack.Injection{
		"500":              {Status: 500, Body: `{"errors": [{"status": 500, "detail": "boom\n\n boom", "code": "placement.undefined_code"}]}`},
		"503":              {Status: 503, Body: html},
		"TooMany":          {Status: 429, Body: html},
		"AnotherThings404": {Status: 404, Body: html},
		"NoRoute404":       {Status: 404, Body: `{"errors": [{"status": 404, "detail": "The resource could not be found.", "code": "placement.undefined_code"}]}`},
		"Empty":            {Status: 200, Body: `{}`},
		"Cut":              {Status: 200, Body: `{"resource_provider_generation": 4, "usa`},
		"NoJSON":           {Status: 200, Body: html},
		"NoAnswer":         {Before: func() { <-held }, Drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			defer s.recorder.Inject(openstack.Match{}, do)()
			_, usages := s.store.Usages(t.Context(), p.UUID)
			_, stock := s.store.Reservation(t.Context(), p.UUID)
			_, put := s.store.PutReserved(t.Context(), p.UUID, 4, 1, nil)
			for _, err := range []error{usages, stock, put, s.store.Create(t.Context(), inventorytest.NewProvider()),
				s.store.Delete(t.Context(), p.UUID)} {
				inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
				require.NotErrorIs(t, err, context.Canceled)
			}
		})
	}
	// An incomplete inventory must not be taken for a free device.
	for _, body := range []string{
		`{"resource_provider_generation": 4, "inventories": {"CUSTOM_BURNISH_TEST": {"total": 1}}}`,
		`{"resource_provider_generation": 4, "inventories": {"CUSTOM_BURNISH_TEST": {"reserved": 0}}}`,
		`{"inventories": {}}`, `{"resource_provider_generation": 4}`,
	} {
		undo := s.recorder.Inject(openstack.Match{}, openstack.Injection{Status: 200, Body: body})
		_, err := s.store.Reservation(t.Context(), p.UUID)
		inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
		undo()
	}
	_, err := s.store.Usages(t.Context(), p.UUID)
	require.NoError(t, err)
}

func TestEachCodeOf409(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, generation := s.free(t)
	answer := func(code string) openstack.Injection {
		return openstack.Injection{Status: 409,
			Body: `{"errors": [{"status": 409, "title": "Conflict", "detail": "There was a conflict.\n\n so it was  ", "code": "` + code + `"}]}`}
	}
	for code, want := range map[string]device.Code{
		"placement.concurrent_update":       device.CodeConflict,
		"placement.inventory.inuse":         device.CodeInUse,
		"placement.resource_provider.inuse": device.CodeInUse,
		"placement.undefined_code":          device.CodeInventoryInvalid,
		"placement.unheard_of":              device.CodeInventoryInvalid,
	} {
		undo := s.recorder.Inject(openstack.Match{Method: http.MethodPut}, answer(code))
		_, err := s.store.PutReserved(t.Context(), p.UUID, generation, 1, nil)
		inventorytest.RequireCode(t, want, err)
		if want == device.CodeInventoryInvalid {
			require.ErrorContains(t, err, "There was a conflict. so it was")
		}
		undo()
	}
	// A delete of a provider in use, with each code.
	consumer := uuid.NewString()
	require.NoError(t, s.nova.Allocate(t.Context(), p.UUID, consumer))
	for _, code := range []string{"placement.concurrent_update", "placement.resource_provider.inuse",
		"placement.inventory.inuse"} {
		undo := s.recorder.Inject(openstack.Match{Method: http.MethodDelete}, answer(code))
		err := s.store.Delete(t.Context(), p.UUID)
		inventorytest.RequireCode(t, device.CodeInUse, err)
		require.ErrorContains(t, err, consumer)
		undo()
	}
	err := s.store.Delete(t.Context(), p.UUID) // and by the real Placement
	inventorytest.RequireCode(t, device.CodeInUse, err)
	require.ErrorContains(t, err, consumer)
	require.NoError(t, s.nova.Deallocate(t.Context(), p.UUID, consumer))
	undo := s.recorder.Inject(openstack.Match{Method: http.MethodDelete}, answer("placement.concurrent_update"))
	inventorytest.RequireCode(t, device.CodeConflict, s.store.Delete(t.Context(), p.UUID))
	undo()
	require.NoError(t, s.store.Delete(t.Context(), p.UUID))
}

// Tokens, roles and policies change while Burnish runs, and a proxy may answer 400 to anything:
// it is waited for, and said. Only the start ends with it.
//
// F29
func TestARefusalThatMayPassIsWaitedFor(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, generation := s.free(t)
	for _, answer := range []openstack.Injection{
		{Status: 401, Body: `{"errors": [{"status": 401, "detail": "The request you have made requires authentication."}]}`},
		{Status: 403, Body: `{"errors": [{"status": 403, "detail": "Policy does not allow"}]}`},
		{Status: 400, Body: `{"errors": [{"status": 400, "detail": "JSON does not validate"}]}`},
		{Status: 400, Body: `<html>400 Bad Request</html>`},
	} {
		undo := s.recorder.Inject(openstack.Match{}, answer)
		s.recorder.Reset()
		_, usages := s.store.Usages(t.Context(), p.UUID)
		_, read := s.store.Reservation(t.Context(), p.UUID)
		_, put := s.store.PutReserved(t.Context(), p.UUID, generation, 1, nil)
		for _, err := range []error{usages, read, put} {
			inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
			require.ErrorContains(t, err, fmt.Sprint(answer.Status))
			require.ErrorContains(t, err, "Burnish tries again")
		}
		undo()
		st, err := s.store.Reservation(t.Context(), p.UUID)
		require.NoError(t, err)
		require.Equal(t, generation, st.Generation)
	}
	// A 400 to what an operator set does not pass.
	undo := s.recorder.Inject(openstack.Match{Method: http.MethodPut, Path: "/resource_classes/"},
		openstack.Injection{Status: 400, Body: `{"errors": [{"status": 400, "detail": "invalid class name"}]}`})
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, s.store.Create(t.Context(), inventorytest.NewProvider()))
	undo()
	store, err := placement.Open(t.Context(), placement.Settings{Getenv: openstack.Environment(map[string]string{
		"OS_AUTH_TYPE": "admin_token", "OS_TOKEN": "nobody", "OS_ENDPOINT": s.recorder.URL,
	})})
	require.Nil(t, store)
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
	require.ErrorContains(t, err, "403")
}

func TestTooOldPlacement(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	for lowest, highest := range map[string]string{"1.0": "1.25", "1.30": "1.39", "2.0": "2.30"} {
		undo := s.recorder.Inject(openstack.Match{}, openstack.Injection{Status: 200,
			Body: fmt.Sprintf(`{"versions": [{"min_version": %q, "max_version": %q}]}`, lowest, highest)})
		store, err := placement.Open(t.Context(), placement.Settings{Getenv: openstack.Noauth(s.recorder.URL)})
		require.Nil(t, store)
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
		require.ErrorContains(t, err, "1.26")
		require.ErrorContains(t, err, highest)
		undo()
	}
}

// Devices go through bindings concurrently with a scheduler; at each write that Placement
// accepts, no dirty device may be allocatable.
//
// F4
func TestDirtyIsNeverAllocatable(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	var mu sync.Mutex
	dirty := map[string]bool{}
	set := func(id string, is bool) {
		mu.Lock()
		defer mu.Unlock()
		dirty[id] = is
	}
	s.recorder.RequireDirtyIsBurned(t, func(id string) bool {
		mu.Lock()
		defer mu.Unlock()
		return dirty[id]
	})
	life := func(ctx context.Context, p inventory.Provider) error {
		set(p.UUID, true)
		v, err := inventory.EnsureProvider(ctx, s.store, p)
		for range 2 {
			if err != nil {
				return err
			}
			consumer := uuid.NewString()
			set(p.UUID, false)
			if _, err = inventory.Unreserve(ctx, s.store, p.UUID, v.Generation); err != nil {
				return err
			}
			if err = s.nova.Allocate(ctx, p.UUID, consumer); err != nil {
				return err
			}
			if v, err = inventory.EnsureReserved(ctx, s.store, p.UUID, nil, inventory.Holder{}); err != nil {
				return err
			}
			set(p.UUID, true)
			if err = s.nova.Deallocate(ctx, p.UUID, consumer); err != nil {
				return err
			}
			v, err = inventory.EnsureReserved(ctx, s.store, p.UUID, &v.Generation, inventory.Holder{})
		}
		return err
	}
	errs := make([]error, 4)
	var ended sync.WaitGroup
	for i := range errs {
		ended.Go(func() { errs[i] = life(t.Context(), inventorytest.NewProvider()) })
	}
	ended.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// Placement is killed before each request: the outcome is unknown, and a second call
// burns the provider when Placement runs again.
//
// F4
func TestReserveForBindThroughARestart(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	for _, nth := range []int{1, 3, 4} { // the usages, the write, the read back
		p, generation := s.free(t)
		s.recorder.Reset()
		undo := s.recorder.Inject(openstack.Match{Nth: nth}, openstack.Injection{Before: func() { s.server.Kill(t) }})
		_, err := inventory.ReserveForBind(t.Context(), s.store, p.UUID, record(tenant), &generation, false)
		undo()
		inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
		_, err = inventory.ReserveForBind(t.Context(), s.store, p.UUID, record(tenant), &generation, true)
		inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
		s.server.Restart(t)
		v, err := inventory.ReserveForBind(t.Context(), s.store, p.UUID, record(tenant), &generation, true)
		require.NoError(t, err)
		require.True(t, v.Burned())
		require.Equal(t, generation+1, v.Generation, "burned once, at request %d", nth)
		_, err = inventory.ReserveForBind(t.Context(), s.store, p.UUID, record(tenant), &generation, false)
		inventorytest.RequireCode(t, device.CodeAlreadyBurned, err)
	}
}
