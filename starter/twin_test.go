package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"burnish/internal/api"
	"burnish/internal/api/access"
	"burnish/internal/api/remote"
	"burnish/internal/testkit/apitest"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// throughAPI has burnish send its requests to an API before the fake client, not to the fake
// client itself.
var throughAPI bool

// behindAPI is a fakeClient as the API takes it.
type behindAPI struct{ *fakeClient }

func (s behindAPI) Fleet(ctx context.Context) ([]client.Execution, error) {
	found, err := s.List(ctx, client.Filter{})
	slices.SortFunc(found, func(a, b client.Execution) int { return cmp.Compare(a.Status.UUID, b.Status.UUID) })
	return found, err
}

func (s behindAPI) ByUUID(ctx context.Context, uuid string) (client.Execution, bool, error) {
	found, err := s.List(ctx, client.Filter{client.ByUUID: {uuid}})
	if err != nil || len(found) == 0 {
		return client.Execution{}, false, err
	}
	return found[0], true, nil
}

// operators lets everyone do everything.
type operators struct{}

func (operators) Authenticate(*http.Request) (access.Principal, error) {
	return access.Principal{ID: "token:op", Name: "op", Roles: []string{"admin"}}, nil
}

func (operators) Allows(string, access.Principal) bool { return true }

func (operators) Check(*http.Request) error { return nil }

func (operators) Enter(access.Principal, bool) (func(), error) { return func() {}, nil }

// apiBefore gives the address of an API before l. Each request has an API of its own, because one shows a
// listing for a while, and the fleet of a test changes at once.
func apiBefore(t *testing.T, l *fakeClient) string {
	t.Helper()
	options := api.Options{
		Devices: behindAPI{l}, Authenticator: operators{}, Policy: operators{}, Guards: operators{},
		Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
	}
	server := httptest.NewServer(apitest.Handler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.New(options).ServeHTTP(w, r)
	})))
	t.Cleanup(server.Close)
	return server.URL
}

// dialing gives l, or an API before it.
func dialing(t *testing.T, l deviceClient) func(context.Context) (deviceClient, error) {
	t.Helper()
	if fake, ok := l.(*fakeClient); throughAPI && ok {
		address := apiBefore(t, fake)
		c, err := remote.New(t.Context(), address, func(string) string { return "" })
		for tries := 1; err != nil && tries < 5; tries++ { // its limit is short for a busy machine
			c, err = remote.New(t.Context(), address, func(string) string { return "" })
		}
		require.NoError(t, err)
		l = c
	}
	return func(context.Context) (deviceClient, error) { return l, nil }
}

// sentAs gives an input as the command line sends it itself. Over the API it must say who asked
// there, and from where.
func sentAs[I any](t *testing.T, in I) I {
	t.Helper()
	if !throughAPI {
		return in
	}
	v := reflect.New(reflect.TypeOf(in)).Elem()
	v.Set(reflect.ValueOf(in))
	caller := v.FieldByName("Caller")
	assert.Equal(t, contract.Caller{By: "op (token:op)", From: "127.0.0.1"}, caller.Interface())
	caller.Set(reflect.ValueOf(operator()))
	return v.Interface().(I)
}

// What holds over Temporal holds over the API: the same output, messages and exit codes.
func TestOverTheAPI(t *testing.T) {
	throughAPI = true
	defer func() { throughAPI = false }()
	for _, test := range []func(*testing.T){
		TestNamesAreCanonical, TestEnroll, TestFailures, TestWait, TestShowByUUID,
		TestShowOfNoDevice, TestSteps, TestOneFailureDoesNotStopTheRest, TestManyWaitTimesOut,
		TestEveryCommandThatDestroysAsks, TestAQuestionShowsTheDevices, TestADryRunSendsNoChange, TestADryRunOfMany,
		TestFiltersSelect, TestLabelCommand, TestLabelsOfAnEnrollment, TestNamedDevicesAreAskedAboutAboveTen,
		TestDoctorOfTheServer, TestEnrollFromAnAppliance, TestEnrollFromAnApplianceDryRun, TestEnrollFromAnAppliancePartly,
		TestAWorkerThatHasJustStarted, TestQuery,
		TestAnEmptyListingIsAList, TestHistoryThatIsEmpty, TestHistoryOfADeviceThatIsGone,
		TestImportEnrollsEveryCandidateOnce, TestImportCheck, TestImportNamesWhatCannotBeImported,
		TestImportFromAnUnservedCloud, TestPlacesInLine, TestResume, TestMigrateDryRun,
		TestMigrateResumes, TestMigrateGoesOn, TestMigrateNeedsAControlWorker, TestOneViewStatus, TestOneViewStatusOfNone,
		TestDoctorShowsThePolls, TestFleetByAnotherPolicy, TestFleetForPeople, TestEnrollWithAPool, TestShowNamesThePool,
		TestGolden, TestValidateACleanByCommand, TestTheRunbookIsShown,
		TestValidateAsksThePool, TestValidateChecksEachInterface, TestInstanceRequestsAreSentAsContracted,
		TestInstanceAnswers, TestInstanceFailures, TestInstanceGolden, TestInstanceBindWithADomain,
		TestWatchAll, TestWatchOne, TestWatchAsObjects, TestWatchThatFails,
	} {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndex(name, ".")+1:], test)
	}
}
