package messagebus

import (
	"bufio"
	_ "embed" // the sender's program
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

//go:embed producer.py
var producerProgram string

// Notification is what a service of Nova is told to say.
type Notification struct {
	// EventType such as "instance.delete.end".
	EventType string `json:"event_type"`
	// PublisherID such as "nova-compute:h1".
	PublisherID string `json:"publisher_id"`
	// Priority is info or error; default info.
	Priority string `json:"priority"`
	// Timestamp in ISO form without zone, UTC; default: now.
	Timestamp string `json:"timestamp,omitempty"`
	// Payload is a versioned object of Nova's.
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

// Producer is oslo.messaging's Notifier, set up as a service of Nova has it.
type Producer struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	errors  string
	mu      sync.Mutex
}

// StartProducer starts one for a broker's transport_url. Its files lie in dir; who
// started it stops it.
func StartProducer(dir, transportURL, exchange, topic string) (p *Producer, err error) {
	p = &Producer{errors: filepath.Join(dir, "producer-"+uuid.NewString()+".log")}
	file, err := os.Create(p.errors)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // the program has it for itself
	p.process = exec.Command(python, "-c", producerProgram, transportURL, exchange, topic)
	p.process.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "LANG=C.UTF-8", "PYTHONWARNINGS=ignore"}
	p.process.Stderr = file
	if p.in, err = p.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.process.Start(); err != nil {
		return nil, err
	}
	if _, err := p.answer(); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Send sends notifications one after the other, and returns once the library has let go
// of each. Its complaints, a notification that it dropped among them, are an error.
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
			return fmt.Errorf("the producer is gone: %w: %s", err, tail(p.errors))
		}
		complaints, err := p.answer()
		if err != nil {
			return err
		}
		if len(complaints) > 0 {
			return fmt.Errorf("%s: oslo.messaging complains: %s", n.EventType, strings.Join(complaints, "; "))
		}
	}
	return nil
}

// answer waits for the producer's line.
func (p *Producer) answer() (complaints []string, err error) {
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
			return nil, fmt.Errorf("the producer ended: %w: %s", r.err, tail(p.errors))
		}
		var answer struct {
			Complaints []string `json:"complaints"`
		}
		if err := json.Unmarshal(r.line, &answer); err != nil {
			return nil, fmt.Errorf("the producer says %q: %w", r.line, err)
		}
		return answer.Complaints, nil
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("the producer does not answer: %s", tail(p.errors))
	}
}

// Stop ends the producer.
func (p *Producer) Stop() error {
	closing := p.in.Close()
	if err := p.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	// How it ended is no news: it was killed.
	var exit *exec.ExitError
	if err := p.process.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return closing
}
