package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestObservationOfAKnownCase(t *testing.T) {
	d, err := read("allocated dirty nova cleanable observed:own")
	require.NoError(t, err)
	s := Ask(AskRecheck, d, Known{Generation: 7, Provider: "p"})
	o, why := Observe(d, s.Answered(Inventory{Generation: 9, Total: 1, Reserved: 1, Provider: "p"}))
	require.Equal(t, Observation{Event: Released}, o)
	require.NotEmpty(t, why)
	o, _ = Observe(d, s.Answered(Inventory{Generation: 9, Total: 1, Used: 1, Consumers: []string{other}, Provider: "p"}))
	require.Equal(t, Observation{Event: ObservedInUse, Instance: other, Then: []FollowUp{EnsureReserved}}, o)
	o, _ = Observe(d, s.Failed(CodeInventoryUnavailable))
	require.Equal(t, Observation{Then: []FollowUp{RetryLater}}, o)
}

// A generation past the known one is a foreign write to every available device, whoever owns
// its provider. Of one that is claimed it proves nothing while the result of our own last
// write is unknown.
//
// F28
func TestAvailableDevicesDetectForeignWrites(t *testing.T) {
	for _, text := range []string{"available", "available nova", "available maintaining nova",
		"available claimed:own nova"} {
		d, err := read(text)
		require.NoError(t, err)
		known := Known{Generation: 7, Provider: "p"}
		require.True(t, known.DetectsForeignWrites(d), text)
		known.Uncertain = true
		require.Equal(t, d.InMaintenance() || d.Allocatable(), known.DetectsForeignWrites(d), text)
	}
	d, err := read("allocated dirty nova observed:own")
	require.NoError(t, err)
	require.False(t, Known{Generation: 7, Provider: "p"}.DetectsForeignWrites(d), "Nova writes while it is in use")
}

// Nothing follows from an instance that a retired device's provider records, unless it is the
// one that left: it stays unexplained.
//
// F24
func TestTheRecordOfARetiredDeviceStaysUnexplained(t *testing.T) {
	d, err := read("retired dirty")
	require.NoError(t, err)
	known := Known{Generation: 3, Left: own, LeftGeneration: 3}
	for tenant, generation := range map[string]int64{own: 5, other: 3} {
		after, _ := known.After(d, Inventory{Generation: generation, Total: 1, Reserved: 1, Record: RecordOf(tenant)}, false)
		require.Equal(t, int64(3), after.Generation, tenant)
	}
	after, _ := known.After(d, Inventory{Generation: 5, Total: 1, Reserved: 1, Record: RecordOf("")}, false)
	require.Equal(t, int64(5), after.Generation)
}

// Only a write that compared what is known of a device that is kept clean replaces it.
//
// F34
func TestWhatIsKnownOfADeviceKeptCleanIsCompared(t *testing.T) {
	kept, err := read("manageable nova")
	require.NoError(t, err)
	known := Known{Generation: 3, Provider: "p"}
	for _, found := range []Known{{Generation: 4, Provider: "p"}, {Generation: 3, Provider: "q"},
		{Generation: 2, Provider: "p"}} {
		i := Inventory{Generation: found.Generation, Provider: found.Provider}
		after, again := known.After(kept, i, false)
		require.Equal(t, known, after)
		require.True(t, again, "the device is to read again")
		after, _ = known.After(kept, i, true)
		require.Equal(t, found, after)
		dirty := kept
		dirty.Dirty = true
		after, _ = known.After(dirty, i, false)
		require.Equal(t, found, after)
	}
}
