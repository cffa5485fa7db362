package nova_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova"
	"burnish/internal/testkit/messagebus"
)

const instance = "178b0921-8f85-4257-88b6-2e743b5a975c"

// body is a message as oslo.messaging makes it.
func body(t testing.TB, event, publisher, timestamp string, payload any) []byte {
	inner, err := json.Marshal(map[string]any{
		"message_id": "0f0c5b1c-6d3c-4f7e-9c0e-000000000001", "publisher_id": publisher, "event_type": event,
		"priority": "INFO",
		"payload":  payload, "timestamp": timestamp, "_unique_id": "f00", "_context_user_id": nil,
	})
	require.NoError(t, err)
	outer, err := json.Marshal(map[string]string{"oslo.version": "2.0", "oslo.message": string(inner)})
	require.NoError(t, err)
	return outer
}

func parse(t *testing.T, event, publisher string, host, node any) (nova.Event, bool) {
	t.Helper()
	e, known, err :=
		nova.Parse(body(t, event, publisher, "2026-11-20 09:48:02.218030", messagebus.Payload(instance, host, node)))
	require.NoError(t, err)
	return e, known
}

// S0.29
func TestDeletedInstanceNamesItsHost(t *testing.T) {
	e, known := parse(t, "instance.delete.end", "nova-compute:Host-1", "Host-1", "HOST-1.example")
	require.True(t, known)
	require.Equal(t, nova.Event{
		Type: "instance.delete.end", Instance: instance, Hosts: []string{"host-1", "host-1.example"},
	}, e)
}

// The events of boots, moves and deletions name these hosts.
//
// S0.20, S0.21, S0.22
func TestHostsOfMoves(t *testing.T) {
	for _, c := range []struct {
		name, event, publisher string
		host, node             any
		hosts                  []string
		elsewhere              bool
	}{
		{"deleted by the API, its host being down", "instance.delete.end", "nova-api:ctl", "h1", "h1", []string{"h1"}, false},
		{"deleted with no host known", "instance.delete.end", "nova-api:ctl", nil, nil, nil, true},
		{"a boot", "instance.create.end", "nova-compute:h1", "h1", "h1", []string{"h1"}, false},
		{"a boot that failed, its host taken off it", "instance.create.error", "nova-compute:h1", nil, nil, []string{"h1"}, false},
		{"an evacuation begins", "instance.evacuate", "nova-api:ctl", "h1", "h1", []string{"h1"}, true},
		{"an evacuation ends, of an instance that still is the source's", "instance.rebuild.end", "nova-compute:h2", "h1", "n1", []string{"h1", "n1", "h2"}, false},
		{"confirmed by the source, of the destination's instance", "instance.resize_confirm.end", "nova-compute:h1", "h2", "h2", []string{"h2", "h1"}, false},
		{"reverted; the destination is not named", "instance.resize_revert.end", "nova-compute:h1", "h1", "h1.example", []string{"h1", "h1.example"}, true},
		{"the source after a live migration", "instance.live_migration_post.end", "nova-compute:h1", "h1", "h1", []string{"h1"}, true},
		{"the destination after a live migration", "instance.live_migration_post_dest.end", "nova-compute:h2", "h2", "h2", []string{"h2"}, true},
		{"a live migration that failed, published by the destination", "instance.live_migration_rollback_dest.end", "nova-compute:h2", "h1", "h1", []string{"h1", "h2"}, false},
		{"shelved and offloaded: the instance has no host any more", "instance.shelve_offload.end", "nova-compute:h1", nil, nil, []string{"h1"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, known := parse(t, c.event, c.publisher, c.host, c.node)
			require.True(t, known)
			require.Equal(t, c.hosts, e.Hosts)
			require.Equal(t, c.elsewhere, e.AllHosts)
		})
	}
}

// In a rebuild in place the instance keeps its device.
//
// S0.18
func TestRebuildCleansNothing(t *testing.T) {
	for _, event := range []string{"instance.rebuild.start", "instance.rebuild.end", "instance.rebuild.error"} {
		_, known := parse(t, event, "nova-compute:H1", "h1", "h1.example")
		require.False(t, known, event)
		_, known = parse(t, event, "nova-api:ctl", "h1", "h1")
		require.False(t, known, event)
	}
}

func TestEventsThatFreeNothing(t *testing.T) {
	for _, event := range []string{
		"instance.power_off.end", "instance.soft_delete.end", "instance.update", "instance.delete.start",
		"instance.resize_prep.end",
		"instance.live_migration_pre.end", "instance.shelve.end", "compute.instance.delete.end", "service.update",
		strings.Repeat("x", 10_000),
	} {
		// The payload of an event that does not concern devices is not parsed.
		_, known, err := nova.Parse(body(t, event, "nova-compute:h1", "", 5))
		require.NoError(t, err)
		require.False(t, known, event)
	}
}

// Nova's driver "messaging", without v2, sends no envelope.
func TestBareMessage(t *testing.T) {
	var outer map[string]string
	require.NoError(t,
		json.Unmarshal(body(t, "instance.delete.end", "nova-compute:h1", "", messagebus.Payload(instance, "h1", "h1")),
			&outer))
	e, known, err := nova.Parse([]byte(outer["oslo.message"]))
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, instance, e.Instance)
}

// poisons are unreadable bodies, by the error that they cause.
func poisons(t testing.TB) map[string][][]byte {
	with := func(key string, value any) []byte {
		payload := messagebus.Payload(instance, "h1", "h1")
		payload["nova_object.data"].(map[string]any)[key] = value
		return body(t, "instance.delete.end", "nova-compute:h1", "", payload)
	}
	return map[string][][]byte{
		"the message is larger than any of Nova's":             {[]byte(`"` + strings.Repeat("x", 1<<20) + `"`)},
		"the message is not JSON":                              {nil, []byte("\x00\xff"), []byte(`{"oslo.message":`), []byte(`{"oslo.message": "{"}`), []byte(strings.Repeat("[", 500_000))},
		"the message does not have oslo.messaging's envelope":  {[]byte(`null`), []byte(`5`), []byte(`[]`), []byte(`{}`), []byte(`{"oslo.message": {}}`), []byte(`{"oslo.message": "{\"oslo.message\": \"{}\"}"}`)},
		"the notification has no versioned payload":            {body(t, "instance.delete.end", "", "", nil), body(t, "instance.delete.end", "", "", map[string]any{"instance_id": instance})},
		"a field of the notification has a type or form that ": {with("uuid", nil), with("uuid", 7), with("uuid", "server-1"), with("host", []string{"h1"}), with("host", "a b"), with("node", "a\nb"), with("node", strings.Repeat("n", 256)), body(t, "instance.delete.end", "nova-compute:h\x00", "", messagebus.Payload(instance, "h1", "h1")), body(t, "instance.delete.end", "", "", "payload"), []byte(`{"event_type": 5}`)},
	}
}

func TestPoison(t *testing.T) {
	for reason, all := range poisons(t) {
		for _, one := range all {
			_, known, err := nova.Parse(one)
			require.ErrorContains(t, err, reason, "%.200s", one)
			require.False(t, known)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(body(f, "instance.delete.end", "nova-compute:h1", "2026-11-20 09:48:02.218030",
		messagebus.Payload(instance, "h1", "h1")))
	f.Add(body(f, "instance.rebuild.end", "nova-compute:h2", "2026-11-20T09:48:02Z",
		messagebus.Payload(instance, "h1", nil)))
	for _, all := range poisons(f) {
		for _, one := range all {
			if len(one) < 10_000 {
				f.Add(one)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, known, err := nova.Parse(text)
		if err != nil && known {
			t.Fatal("known and refused")
		}
		if !known {
			return
		}
		if len(e.Instance) != 36 || e.Type == "" || len(e.Hosts) > 3 {
			t.Fatalf("%+v", e)
		}
		if len(e.Hosts) == 0 && !e.AllHosts {
			t.Fatal("it concerns no host at all")
		}
		for _, host := range e.Hosts {
			if host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, " \t\r\n\x00") {
				t.Fatalf("%q", host)
			}
		}
	})
}
