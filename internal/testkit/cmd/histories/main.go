// Command histories writes the histories of workflows, every run of each, in the form that
// the replay tests read: <name>-<run number>.json. Those of the devices named are there
// already; it records those of a host, a cloud, an appliance and an instance itself, with scripted activities.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"

	"burnish/internal/config"
	"burnish/workflows/contract"
)

// machine matches the names of the recording machine, which a replay does not read.
var machine = regexp.MustCompile(`"(identity|name)": "(?:[^"]*@[^"]*|[^"]*:[0-9a-f]{8}-[0-9a-f-]{27})"`)

func main() {
	into := flag.String("into", "", "the folder to write to")
	flag.Parse()
	if *into == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: histories -into FOLDER NAME…")
		os.Exit(2)
	}
	if err := run(context.Background(), *into, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "histories:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, into string, names []string) error {
	temporal, err := config.Dial(ctx, slog.New(slog.DiscardHandler), "")
	if err != nil {
		return err
	}
	defer temporal.Close()
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	if err := record(ctx, temporal.Client); err != nil {
		return err
	}
	workflows := map[string]string{"hostscan": contract.HostScanWorkflowID(recorder),
		"reconcile": contract.ReconcileWorkflowID(recorder), "limits": contract.LimitsWorkflowID,
		"oneview": contract.OneViewWorkflowID(recorder), "instance": contract.InstanceWorkflowID(recordedInstance),
		"address": contract.GuestAddressWorkflowID(recordedAddress)}
	for _, name := range names {
		workflows[name] = contract.WorkflowID(name)
	}
	for name, id := range workflows {
		if err := save(ctx, temporal, into, name, id); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// save writes a workflow's runs, from the present one back to its first.
func save(ctx context.Context, temporal client.Client, into, name, workflow string) error {
	var runs []*historypb.History
	for id := ""; ; {
		history := &historypb.History{}
		events := temporal.GetWorkflowHistory(ctx, workflow, id, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				return err
			}
			history.Events = append(history.Events, event)
		}
		if len(history.Events) == 0 {
			return fmt.Errorf("run %q has no events", id)
		}
		runs = append(runs, history)
		id = history.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		if id == "" {
			break
		}
	}
	for i, history := range runs {
		text, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(history)
		if err != nil {
			return err
		}
		text = machine.ReplaceAll(text, []byte(`"$1": "recorded"`))
		path := filepath.Join(into, fmt.Sprintf("%s-%d.json", name, len(runs)-i))
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%s: %d events\n", path, len(history.Events))
	}
	return nil
}
