package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/messagebus"
	"burnish/workflows/contract"
)

// startBroker starts a RabbitMQ and Nova's Notifier, for one test.
func startBroker(t *testing.T) (*messagebus.Broker, *messagebus.Producer) {
	t.Helper()
	return beginBroker(t)()
}

// requireBroker skips the test where no broker can be started.
func requireBroker(t *testing.T) {
	t.Helper()
	if why := messagebus.Missing(); why != "" {
		t.Skip(why)
	}
}

// beginBroker is startBroker that goes on in the background until its result is asked for.
func beginBroker(t *testing.T) (started func() (*messagebus.Broker, *messagebus.Producer)) {
	t.Helper()
	requireBroker(t)
	var (
		b   *messagebus.Broker
		p   *messagebus.Producer
		err error
	)
	brokerDir, producerDir := t.TempDir(), t.TempDir()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if b, err = messagebus.Start(brokerDir); err == nil {
			p, err = messagebus.StartProducer(producerDir, b.TransportURL(), "nova", "versioned_notifications")
		}
	}()
	t.Cleanup(func() {
		<-ended
		if p != nil {
			require.NoError(t, p.Stop())
		}
		if b != nil {
			require.NoError(t, b.Stop())
		}
	})
	return func() (*messagebus.Broker, *messagebus.Producer) {
		t.Helper()
		<-ended
		require.NoError(t, err)
		return b, p
	}
}

// runListener starts a worker that depends on notifications: it does not sweep.
func (c *Cloud) runListener(t *testing.T, b *messagebus.Broker, p *messagebus.Producer) *Worker {
	t.Helper()
	w := c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=0", "BURNISH_AMQP_URL="+b.TransportURL())...)
	c.awaitListening(t, w, p, 1)
	return w
}

// awaitListening waits until the worker is connected to the broker for the nth time. The
// worker needs the exchange, which Nova declares with its first notification.
func (c *Cloud) awaitListening(t *testing.T, w *Worker, p *messagebus.Producer, nth int) {
	t.Helper()
	// Nova's library may report a broker that was down.
	Await(t, time.Minute, "Nova to send a notification", func() (bool, string) {
		err := p.Send(messagebus.Instance("instance.update", uuid.NewString(), c.NovaHost))
		return err == nil, fmt.Sprint(err)
	})
	Await(t, time.Minute, "the worker to listen", func() (bool, string) {
		text := w.Log()
		return strings.Count(text, "listening to Nova's notifications") >= nth, text
	})
}

// giveToTenant gives the device to an instance, and waits until Burnish knows.
func (c *Cloud) giveToTenant(t *testing.T, p *messagebus.Producer, d Device, provider string,
	nonce uint64) (instance string) {
	t.Helper()
	instance = c.Spawn(t, provider)
	d.Stamp(t, nonce)
	require.NoError(t, p.Send(messagebus.Instance("instance.create.end", instance, c.NovaHost)))
	v := c.AwaitState(t, d.Name, time.Minute, device.Allocated)
	require.Equal(t, instance, *v.InstanceUUID)
	return instance
}

// Nova's notifications are enough, without any sweep.
func TestNotificationsAreEnough(t *testing.T) {
	t.Parallel()
	b, p := startBroker(t)
	c := NewCloud(t, newSite(t))
	w := c.runListener(t, b, p)
	t.Run("a move", func(t *testing.T) { c.aMoveCleansTheDeviceThatIsLeft(t, p) })
	t.Run("a deletion", func(t *testing.T) { c.aDeletionIsNoticed(t, w, b, p) })
}

// aDeletionIsNoticed: an instance is deleted and its device is cleaned, also after the broker was
// killed and its bindings are gone. A rebuild cleans nothing. A notification that comes late,
// twice, or about a binding that has ended changes nothing (F6).
func (c *Cloud) aDeletionIsNoticed(t *testing.T, w *Worker, b *messagebus.Broker, p *messagebus.Producer) {
	d, provider := c.NovaDevice(t, "0000:AF:00.0", 4*MiB)
	c.EnrollNovaDevice(t, d)

	first := c.giveToTenant(t, p, d, provider, 1)
	for _, event := range []string{"instance.rebuild.start", "instance.rebuild.end", "instance.power_off.end",
		"instance.update"} {
		require.NoError(t, p.Send(messagebus.Instance(event, first, c.NovaHost)))
	}
	c.Destroy(t, first)
	deleted := messagebus.Instance("instance.delete.end", first, c.NovaHost)
	deleted.Timestamp = time.Now().UTC().Format("2006-01-02 15:04:05.000000")
	require.NoError(t, p.Send(deleted, deleted))
	v := c.AwaitState(t, d.Name, time.Minute, device.Available)
	require.Len(t, v.Cleans, 2, "the one of the enrollment, and one of this binding")
	d.RequireZero(t)

	require.NoError(t, b.Kill())
	require.NoError(t, b.Restart())
	c.awaitListening(t, w, p, 2)
	second := c.giveToTenant(t, p, d, provider, 2)
	// The end of the old binding is notified once more.
	require.NoError(t, p.Send(deleted))
	runs := c.State(t).PartialRuns
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", uuid.NewString(), c.NovaHost)))
	Await(t, time.Minute, "one more sweep of the host", func() (bool, string) { return c.State(t).PartialRuns > runs, "" })
	v = c.Show(t, d.Name)
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Len(t, v.Cleans, 2)
	d.RequireStamps(t, 2)

	c.Destroy(t, second)
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", second, c.NovaHost)))
	c.AwaitState(t, d.Name, time.Minute, device.Available)
	d.RequireZero(t)
	c.RequireStock(t, provider, 0)
}

// aMoveCleansTheDeviceThatIsLeft: an instance moves from one device to another, and the device that
// it leaves is cleaned, on confirm the source, on revert the destination, and never the other.
func (c *Cloud) aMoveCleansTheDeviceThatIsLeft(t *testing.T, p *messagebus.Producer) {
	one, pOne := c.NovaDevice(t, "0000:01:00.0", 4*MiB)
	two, pTwo := c.NovaDevice(t, "0000:02:00.0", 4*MiB)
	c.EnrollNovaDevice(t, one)
	c.EnrollNovaDevice(t, two)
	instance := c.giveToTenant(t, p, one, pOne, 1)
	is := func(d Device, consumer string) contract.DeviceStatus {
		t.Helper()
		return c.AwaitDevice(t, d.Name, time.Minute, "to be "+consumer+"'s", heldBy(consumer))
	}
	// migrate has Nova give the source to a migration and the destination to the instance.
	migrate := func(source string, from, to Device, destination string, has, brings uint64) (migration string) {
		t.Helper()
		migration = uuid.NewString()
		c.replaceConsumer(t, source, instance, migration)
		require.NoError(t, c.Nova.Allocate(t.Context(), destination, instance))
		c.Nova.Burn(destination)
		to.Stamp(t, brings)
		require.NoError(t, p.Send(messagebus.Instance("instance.resize_finish.end", instance, c.NovaHost)))
		is(to, instance)
		require.Equal(t, device.Allocated, c.Show(t, from.Name).DeviceState)
		from.RequireStamps(t, has)
		return migration
	}

	migration := migrate(pOne, one, two, pTwo, 1, 2)
	c.Destroy(t, migration)
	require.NoError(t, p.Send(messagebus.Instance("instance.resize_confirm.end", instance, c.NovaHost)))
	c.AwaitState(t, one.Name, time.Minute, device.Available)
	one.RequireZero(t)
	require.Len(t, is(two, instance).Cleans, 1, "only that of the enrollment")
	two.RequireStamps(t, 2)

	migration = migrate(pTwo, two, one, pOne, 2, 3)
	c.Destroy(t, instance)
	c.replaceConsumer(t, pTwo, migration, instance)
	require.NoError(t, p.Send(messagebus.Instance("instance.resize_revert.end", instance, c.NovaHost)))
	c.AwaitState(t, one.Name, time.Minute, device.Available)
	one.RequireZero(t)
	v := c.Show(t, two.Name) // its consumer may still be shown as the migration
	require.Equal(t, device.Allocated, v.DeviceState)
	require.Len(t, v.Cleans, 1, "only that of the enrollment")
	two.RequireStamps(t, 2)
}

// replaceConsumer gives a reserved device's allocation another consumer. Placement 2025.2
// allows that at once; here reserved has to be lowered for a moment.
func (c *Cloud) replaceConsumer(t *testing.T, provider, from, to string) {
	t.Helper()
	has, err := c.Nova.Inventory(t.Context(), provider)
	require.NoError(t, err)
	Await(t, time.Minute, "the allocation to change hands", func() (bool, string) {
		c.Nova.SetReserved(provider, 0)
		var held struct {
			Generation int `json:"consumer_generation"`
		}
		if _, text, err := c.Nova.Do(t.Context(), http.MethodGet, "/allocations/"+from, nil, &held); err != nil {
			return false, fmt.Sprint(text, err)
		}
		allocation := func(of any, generation any) map[string]any {
			return map[string]any{
				"allocations": of, "project_id": "burnish-test", "user_id": "burnish-test",
				"consumer_generation": generation, "consumer_type": "INSTANCE",
			}
		}
		status, text, err := c.Nova.Do(t.Context(), http.MethodPost, "/allocations", map[string]any{
			from: allocation(map[string]any{}, held.Generation),
			to:   allocation(map[string]any{provider: map[string]any{"resources": map[string]int{has.Class: 1}}}, nil),
		}, nil)
		return err == nil && status == http.StatusNoContent, fmt.Sprint(status, text, err)
	})
	c.Nova.Burn(provider)
}

// An evacuated instance's old device stays reserved until its host recovers and deletes the
// allocation, without a notification; then it is cleaned.
func (c *Cloud) evacuatedSourceIsCleanedWhenItsHostDropsIt(t *testing.T) {
	from, source := c.NovaDevice(t, "0000:0E:00.0", 4*MiB)
	c.EnrollNovaDevice(t, from)
	instance := c.Spawn(t, source)
	from.Stamp(t, 1)
	c.AwaitState(t, from.Name, time.Minute, device.Allocated)
	c.awaitSweeps(t, 3)
	from.RequireStamps(t, 1)
	c.RequireStock(t, source, 1)
	c.Destroy(t, instance)
	c.AwaitState(t, from.Name, time.Minute, device.Available)
	from.RequireZero(t)
}
