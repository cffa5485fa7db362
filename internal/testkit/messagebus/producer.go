package messagebus

import (
	"bufio"
	_ "embed" // the sender's program
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"burnish/internal/testkit/proc"
)

//go:embed producer.py
var producerProgram string

// Notification is one that a service of Nova sends.
type Notification struct {
	// EventType such as "instance.delete.end".
	EventType string `json:"event_type"`
	// PublisherID such as "nova-compute:h1".
	PublisherID string `json:"publisher_id"`
	// Priority is info or error; default info.
	Priority string `json:"priority"`
	// Timestamp in ISO form without zone, UTC; default: now.
	Timestamp string `json:"timestamp,omitempty"`
	// Payload is one of Nova's versioned objects.
	Payload any `json:"payload"`
}

// Instance is a notification about an instance as nova-compute on a host sends it.
func Instance(event, instance, host string) Notification {
	return Notification{EventType: event, PublisherID: "nova-compute:" + host, Payload: Payload(instance, host, host)}
}

// Payload is Nova's InstanceActionPayload, shortened.
func Payload(instance string, host, node any) map[string]any {
	return map[string]any{
		"nova_object.name": "InstanceActionPayload", "nova_object.namespace": "nova", "nova_object.version": "1.8",
		"nova_object.data": map[string]any{
			"uuid": instance, "host": host, "node": node, "state": "active", "task_state": nil, "power_state": "running",
			"host_name": "some-server", "display_name": "some-server", "tenant_id": uuid.NewString(), "user_id": "fake",
			"metadata": map[string]string{}, "block_devices": []any{}, "ip_addresses": []any{}, "fault": nil,
			"created_at": "2026-10-29T13:42:11Z", "deleted_at": nil, "availability_zone": "nova",
			"flavor": map[string]any{
				"nova_object.name": "FlavorPayload", "nova_object.namespace": "nova", "nova_object.version": "1.4",
				"nova_object.data": map[string]any{"name": "accelerated", "extra_specs": map[string]string{"pci_passthrough:alias": "nvme:1"}},
			},
		},
	}
}

// Producer is oslo.messaging's Notifier with the settings of a service of Nova.
type Producer struct {
	process *proc.Process
	in      io.Writer
	out     *bufio.Reader
	mu      sync.Mutex
}

// StartProducer starts a producer for a broker's transport URL. Its files are in dir. The
// caller stops it.
func StartProducer(dir, transportURL, exchange, topic string) (*Producer, error) {
	cmd := exec.Command(python, "-c", producerProgram, transportURL, exchange, topic)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "LANG=C.UTF-8", "PYTHONWARNINGS=ignore"}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &Producer{in: in, out: bufio.NewReader(out)}
	log := filepath.Join(dir, "producer-"+uuid.NewString()+".log")
	if p.process, err = proc.Start("the producer", log, cmd); err != nil {
		return nil, err
	}
	if _, err := p.answer(); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Send sends notifications one after the other and returns when the library has processed
// each. Warnings of the library, such as that it dropped a notification, are errors.
func (p *Producer) Send(all ...Notification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range all {
		if n.Priority == "" {
			n.Priority = "info"
		}
		line, err := json.Marshal(n)
		if err != nil {
			return err
		}
		if _, err := p.in.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write to the producer: %w: %s", err, p.process.Tail())
		}
		warnings, err := p.answer()
		if err != nil {
			return err
		}
		if len(warnings) > 0 {
			return fmt.Errorf("%s: oslo.messaging warns: %s", n.EventType, strings.Join(warnings, "; "))
		}
	}
	return nil
}

// answer waits for the producer's next line.
func (p *Producer) answer() (warnings []string, err error) {
	type read struct {
		line []byte
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := p.out.ReadBytes('\n')
		got <- read{line, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, fmt.Errorf("the producer ended: %w: %s", r.err, p.process.Tail())
		}
		var answer struct {
			Warnings []string `json:"warnings"`
		}
		if err := json.Unmarshal(r.line, &answer); err != nil {
			return nil, fmt.Errorf("the producer wrote %q: %w", r.line, err)
		}
		return answer.Warnings, nil
	case <-time.After(startWithin):
		return nil, fmt.Errorf("the producer does not answer: %s", p.process.Tail())
	}
}

// Stop ends the producer.
func (p *Producer) Stop() error { return p.process.Kill() }
