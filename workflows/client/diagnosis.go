package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const (
	// maxNamed bounds the devices that a diagnosis names for one host.
	maxNamed = 10
	// maxLost bounds the lost workflows that a diagnosis names.
	maxLost = 100
	// askedAtOnce bounds the questions that are open at once.
	askedAtOnce = 8
)

// Diagnosis is what the server shows of the whole installation.
type Diagnosis struct {
	// Hosts are those of the devices in service, by name.
	Hosts []HostDiagnosis `json:"hosts"`
	// Lost are the devices whose workflow ended in another way than by itself, and does not run
	// again, by name.
	Lost []LostWorkflow `json:"lost"`
	// MoreLost: there are more of them than Lost names.
	MoreLost bool `json:"more_lost,omitempty"`
}

// HostDiagnosis is one host with devices in service.
type HostDiagnosis struct {
	Host string `json:"host"`
	// LastPoll is when a worker last polled the host's task queue; zero if none has, as far as
	// the server remembers.
	LastPoll time.Time `json:"last_poll,omitzero"`
	// Machines are those whose workers polled it lately, by name; more than one: not all are the host.
	Machines []string `json:"machines,omitempty"`
	Devices  int      `json:"devices"`
	// Waiting is how many of them wait for the host's worker; Names are the first of those.
	Waiting int      `json:"waiting"`
	Names   []string `json:"names,omitempty"`
}

// LostWorkflow is a device without a workflow.
type LostWorkflow struct {
	Device string `json:"device"`
	// HowEnded says in words how its last run ended, when and by whom.
	HowEnded string `json:"how_ended"`
}

// Diagnosis asks the server for what only an operator can put right. It is a hint: a listing
// lags behind.
func (c *Client) Diagnosis(ctx context.Context) (Diagnosis, error) {
	d := Diagnosis{Hosts: []HostDiagnosis{}, Lost: []LostWorkflow{}}
	running, err := c.Fleet(ctx)
	if err != nil {
		return d, err
	}
	slices.SortFunc(running, func(a, b Execution) int { return cmp.Compare(a.Name, b.Name) })
	if d.Hosts, err = c.diagnoseHosts(ctx, running); err != nil {
		return d, err
	}
	d.Lost, d.MoreLost, err = c.lostWorkflows(ctx, running)
	return d, err
}

func (c *Client) diagnoseHosts(ctx context.Context, running []Execution) ([]HostDiagnosis, error) {
	hosts := map[string]*HostDiagnosis{}
	for _, e := range running {
		v := e.Status
		if v.Hostname == "" || v.DeviceState == device.Retired {
			continue
		}
		h := hosts[v.Hostname]
		if h == nil {
			h = &HostDiagnosis{Host: v.Hostname}
			hosts[v.Hostname] = h
		}
		h.Devices++
		if waitsForHost(v) {
			h.Waiting++
			if len(h.Names) < maxNamed {
				h.Names = append(h.Names, e.Name)
			}
		}
	}
	all := slices.SortedFunc(maps.Values(hosts), func(a, b *HostDiagnosis) int { return cmp.Compare(a.Host, b.Host) })
	found, names := make([]HostDiagnosis, len(all)), make([]string, len(all))
	for i, h := range all {
		found[i], names[i] = *h, h.Host
	}
	answers, err := c.hostPollers(ctx, names)
	for i, pollers := range answers {
		found[i].LastPoll, found[i].Machines = lastOf(pollers), machinesOf(pollers)
	}
	return found, err
}

// machinesOf reads the machines of workers from their identities (host.Identity), by name.
func machinesOf(pollers []*taskqueuepb.PollerInfo) (machines []string) {
	for _, poller := range pollers {
		_, where, _ := strings.Cut(poller.GetIdentity(), "@")
		machine, _, _ := strings.Cut(where, "/")
		machines = append(machines, machine)
	}
	slices.Sort(machines)
	return slices.Compact(machines)
}

// LastPolls are the times at which workers last polled the task queues of hosts, in their order.
func (c *Client) LastPolls(ctx context.Context, hosts []string) ([]time.Time, error) {
	all, err := c.hostPollers(ctx, hosts)
	polls := make([]time.Time, len(all))
	for i, pollers := range all {
		polls[i] = lastOf(pollers)
	}
	return polls, err
}

func (c *Client) hostPollers(ctx context.Context, hosts []string) ([][]*taskqueuepb.PollerInfo, error) {
	pollers := make([][]*taskqueuepb.PollerInfo, len(hosts))
	var asked errgroup.Group
	asked.SetLimit(askedAtOnce)
	for i, host := range hosts {
		asked.Go(func() (err error) {
			pollers[i], err = c.pollers(ctx, contract.HostQueue(host), false)
			return err
		})
	}
	if err := asked.Wait(); err != nil {
		return nil, fmt.Errorf("ask who polls for the hosts: %w", err)
	}
	return pollers, nil
}

// waitsForHost says that a device cannot go on without its host's worker: its clean runs, or
// it has reported that it waits for it.
func waitsForHost(v contract.DeviceStatus) bool {
	return v.DeviceState == device.Cleaning && (v.Waiting == nil || v.Waiting.For == contract.WaitHost) ||
		v.Waiting != nil && v.Waiting.For == contract.WaitHost || v.Fault == string(device.CodeHostUnreachable)
}

// lostWorkflows finds devices whose last run was terminated, failed or timed out. A run in
// which a device was never enrolled has lost nothing.
func (c *Client) lostWorkflows(ctx context.Context, running []Execution) (lost []LostWorkflow, more bool, err error) {
	runs, candidates := map[string]bool{}, map[string]bool{}
	for _, e := range running {
		runs[e.Name] = true
	}
	query := joined("WorkflowType = "+literal(contract.WorkflowDeviceLifecycle),
		"ExecutionStatus IN ('Terminated', 'Failed', 'TimedOut')")
	err = c.pages(ctx, query, func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		for _, info := range infos {
			if e := executionOf(info, nil); !runs[e.Name] && !e.Absent() {
				candidates[e.Name] = true
			}
		}
		return false, nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list the workflows that ended: %w", err)
	}
	names := slices.Sorted(maps.Keys(candidates))
	if len(names) > maxLost {
		names, more = names[:maxLost], true
	}
	found := make([]LostWorkflow, len(names))
	var asked errgroup.Group
	asked.SetLimit(askedAtOnce)
	for i, name := range names {
		asked.Go(func() error {
			e, has, err := c.LastRun(ctx, name)
			if err != nil || !has || e.Running || e.Forgotten || e.continued || e.Absent() {
				return err
			}
			how, err := c.HowEnded(ctx, e)
			found[i] = LostWorkflow{Device: name, HowEnded: how}
			return err
		})
	}
	if err := asked.Wait(); err != nil {
		return nil, more, fmt.Errorf("read how workflows ended: %w", err)
	}
	return slices.DeleteFunc(found, func(l LostWorkflow) bool { return l.Device == "" }), more, nil
}
