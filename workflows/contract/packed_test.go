package contract_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// packedTexts are IDs, instances and names as clients choose them.
var packedTexts = []string{
	"", "vm-1", "0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41", "granted 0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41",
	"0D5F8C1E-7f3a-4c55-9f62-3b1c8e0a9d41", "0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41#0123456789abcdef", "0d5f8c1e7f3a4c559f623b1c8e0a9d41",
	"{0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41}", "urn:uuid:0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41", "00000000-0000-0000-0000-000000000000",
	"<&\u2028ä", fmt.Sprintf("%0300d", 7),
}

// In JSON, which Temporal keeps, packed updates and bindings are what plain lists of them are.
func TestPackedListsHaveTheJSONOfPlainOnes(t *testing.T) {
	at := time.Date(2026, 11, 3, 4, 5, 6, 7, time.UTC)
	refusal := &contract.Refusal{
		Fault:  device.Fault{Class: device.Permanent, Code: device.CodeRefused, Message: "<a> & b", Remedy: "wait"},
		Device: "d1", State: device.Available, Known: &contract.HostNumbers{Seq: 3}, Progress: &contract.Progress{Step: "zero", ProgressAt: at}, Attempt: 2,
	}
	var plain struct {
		Recent  []contract.RecentUpdate `json:"recent,omitempty"`
		History []device.Binding        `json:"history,omitempty"`
	}
	for i, text := range packedTexts {
		u := contract.RecentUpdate{ID: text}
		if i%3 == 0 {
			u.Refusal = refusal
		}
		plain.Recent = append(plain.Recent, u)
		other := packedTexts[(i+5)%len(packedTexts)]
		plain.History = append(plain.History, device.Binding{
			Number: i * 1000, Instance: text, Request: other, Tag: text, Observed: i%2 == 0, Managed: i%3 == 0, Ended: other,
		})
	}
	type packed struct {
		Recent  contract.RecentUpdates `json:"recent,omitempty"`
		History contract.Bindings      `json:"history,omitempty"`
	}
	text, err := json.Marshal(plain)
	require.NoError(t, err)
	var read, made packed
	require.NoError(t, json.Unmarshal(text, &read))
	for i := range plain.Recent {
		made.Recent, made.History = made.Recent.With(plain.Recent[i]), made.History.With(plain.History[i])
	}
	require.Equal(t, made, read)
	require.Equal(t, plain.Recent, read.Recent.All())
	require.Equal(t, plain.History, read.History.All())
	again, err := json.Marshal(read)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))

	for _, none := range []string{`{}`, `{"recent":[],"history":[]}`, `{"recent":null,"history":null}`} {
		var empty packed
		require.NoError(t, json.Unmarshal([]byte(none), &empty))
		require.Equal(t, packed{}, empty)
		again, err := json.Marshal(empty)
		require.NoError(t, err)
		require.Equal(t, `{}`, string(again))
	}
	require.Error(t, json.Unmarshal([]byte(`{"recent":{}}`), &packed{}))
	require.Error(t, json.Unmarshal([]byte(`{"history":7}`), &packed{}))
}

// The last updates are found by their IDs, each with its last outcome, and no others are.
func TestRecentUpdatesAreFoundByID(t *testing.T) {
	var all contract.RecentUpdates
	for _, id := range packedTexts {
		_, found := all.Find(id)
		require.False(t, found, id)
		all = all.With(contract.RecentUpdate{ID: id})
	}
	before := all
	failed := &contract.Refusal{Fault: device.Fault{Class: device.Permanent, Code: device.CodeRefused, Message: "no"}}
	all = all.With(contract.RecentUpdate{ID: "vm-1", Refusal: failed})
	require.Len(t, all.All(), len(packedTexts))
	for _, id := range packedTexts {
		u, found := all.Find(id)
		require.True(t, found, id)
		want := contract.RecentUpdate{ID: id}
		if id == "vm-1" {
			want.Refusal = failed
		}
		require.Equal(t, want, u)
	}
	u, _ := before.Find("vm-1")
	require.Nil(t, u.Refusal, "a list never changes")
	for _, id := range []string{"v", "vm-11", "granted ", "granted 0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d42"} {
		_, found := all.Find(id)
		require.False(t, found, id)
	}
	require.True(t, all.OtherBody("0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41#1123456789abcdef"))
	require.False(t, all.OtherBody("0d5f8c1e-7f3a-4c55-9f62-3b1c8e0a9d41#0123456789abcdef"))
	require.False(t, all.OtherBody("vm-1"))

	unreadable := &contract.Refusal{Progress: &contract.Progress{ProgressAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}
	all = all.With(contract.RecentUpdate{ID: "vm-1", Refusal: unreadable})
	u, _ = all.Find("vm-1")
	require.Equal(t, device.CodeInternal, u.Refusal.Fault.Code, "an update that failed stays one that failed")
}

// Of usual updates and bindings, whose IDs are UUIDs, as many as are kept take little memory,
// and the oldest give way.
func TestPackedListsAreSmall(t *testing.T) {
	var recent contract.RecentUpdates
	var bindings contract.Bindings
	var ids []string
	for n := range 100 {
		ids = append(ids, uuid.NewString())
		recent = recent.With(contract.RecentUpdate{ID: ids[n]})
		bindings = bindings.With(device.Binding{Number: n, Instance: uuid.NewString(), Request: ids[n]})
	}
	updates := recent.All()
	require.Len(t, updates, contract.KeptUpdates)
	require.Equal(t, ids[60], updates[0].ID)
	require.Equal(t, ids[99], updates[39].ID)
	all := bindings.All()
	require.Len(t, all, contract.KeptBindings)
	require.Equal(t, 80, all[0].Number)
	require.Equal(t, ids[99], all[19].Request)
	require.LessOrEqual(t, cap(recent), 768)
	require.LessOrEqual(t, cap(bindings), 896)

	for name, tt := range map[string]struct {
		instance, request string
		number            int
	}{
		"an instance":                      {all[3].Instance, "", 83},
		"with its request":                 {all[3].Instance, ids[83], 83},
		"with another's":                   {all[3].Instance, ids[84], -1},
		"a later request of the same":      {"vm-1", "again", 101},
		"an instance that has only a name": {"vm-1", "", 100},
		"its UUID does not stand for it":   {device.TenantUUID("vm-1"), "", -1},
		"recorded by its UUID":             {"vm-2", "", 102},
		"another":                          {"vm-3", "", -1},
		"none":                             {"", "", -1},
	} {
		more := bindings.With(device.Binding{Number: 100, Instance: "vm-1"}).With(device.Binding{Number: 101, Instance: "vm-1", Request: "again"}).
			With(device.Binding{Number: 102, Instance: device.TenantUUID("vm-2")})
		number, found := more.Of(tt.instance, tt.request)
		require.Equal(t, tt.number >= 0, found, name)
		require.Equal(t, max(tt.number, 0), number, name)
	}

	ended := bindings.Ended(85, "moved by alice")
	require.Equal(t, "moved by alice", ended.All()[5].Ended)
	require.Empty(t, bindings.All()[5].Ended, "a list never changes")
	require.Equal(t, bindings, ended.Ended(85, ""))
	require.Equal(t, bindings, bindings.Ended(7, "it is no longer kept"))
}
