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
	"burnish/internal/testkit/must"
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
	if err := must.Try(func() { run(context.Background(), *into, flag.Args()) }); err != nil {
		fmt.Fprintln(os.Stderr, "histories:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, into string, names []string) {
	temporal := must.Get(config.Dial(ctx, slog.New(slog.DiscardHandler), ""))
	defer temporal.Close()
	must.Do(os.MkdirAll(into, 0o755))
	record(ctx, temporal.Client)
	workflows := map[string]string{"hostscan": contract.HostScanWorkflowID(recorder),
		"reconcile": contract.ReconcileWorkflowID(recorder), "limits": contract.LimitsWorkflowID,
		"oneview": contract.OneViewWorkflowID(recorder), "instance": contract.InstanceWorkflowID(recordedInstance),
		"address": contract.GuestAddressWorkflowID(recordedAddress)}
	for _, name := range names {
		workflows[name] = contract.WorkflowID(name)
	}
	for name, id := range workflows {
		save(ctx, temporal, into, name, id)
	}
}

// save writes a workflow's runs, from the present one back to its first.
func save(ctx context.Context, temporal client.Client, into, name, workflow string) {
	var runs []*historypb.History
	for id := ""; ; {
		history := &historypb.History{}
		events := temporal.GetWorkflowHistory(ctx, workflow, id, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			history.Events = append(history.Events, must.Get(events.Next()))
		}
		must.Be(len(history.Events) > 0, "%s: run %q has no events", name, id)
		runs = append(runs, history)
		id = history.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		if id == "" {
			break
		}
	}
	for i, history := range runs {
		text := must.Get(temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(history))
		text = machine.ReplaceAll(text, []byte(`"$1": "recorded"`))
		path := filepath.Join(into, fmt.Sprintf("%s-%d.json", name, len(runs)-i))
		must.Do(os.WriteFile(path, append(text, '\n'), 0o644))
		fmt.Fprintf(os.Stdout, "%s: %d events\n", path, len(history.Events))
	}
}
