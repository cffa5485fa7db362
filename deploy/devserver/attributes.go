package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// searchAttributes are the fields by which devices are listed. The names are
// those of Burnish's workflows; SQL visibility has room for 10 Keyword, 3 Bool
// and 3 Datetime attributes in a namespace.
func searchAttributes() map[string]enumspb.IndexedValueType {
	attributes := map[string]enumspb.IndexedValueType{
		"NeedsOperator": enumspb.INDEXED_VALUE_TYPE_BOOL,
		"DeviceDirty":   enumspb.INDEXED_VALUE_TYPE_BOOL,
		"DeviceUpdated": enumspb.INDEXED_VALUE_TYPE_DATETIME,
	}
	for _, name := range []string{
		"DeviceState", "DeviceUuid", "DeviceSerial", "DeviceType", "DeviceHost", "InstanceId", "CleanStep", "DeviceFault",
	} {
		attributes[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return attributes
}

// ensureAttributes registers what the namespace lacks (a database of an older
// release) and returns when queries may name every attribute.
func ensureAttributes(ctx context.Context, c client.Client, namespace string) error {
	listed, err := c.OperatorService().
		ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list search attributes: %w", err)
	}
	missing, err := missingAttributes(listed.GetCustomAttributes())
	if err != nil {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	if len(missing) > 0 {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: missing,
		})
		if err != nil {
			return fmt.Errorf("register search attributes: %w", err)
		}
	}
	query := attributesQuery()
	return poll(ctx, "search attributes usable", func(ctx context.Context) error {
		_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: query})
		return err
	})
}

// missingAttributes is what must be added to have. An attribute that exists
// with another type is an error: Temporal cannot change it.
func missingAttributes(have map[string]enumspb.IndexedValueType) (map[string]enumspb.IndexedValueType, error) {
	missing := map[string]enumspb.IndexedValueType{}
	for name, want := range searchAttributes() {
		got, ok := have[name]
		if !ok {
			missing[name] = want
		} else if got != want {
			return nil, fmt.Errorf("search attribute %s is of type %s, Burnish needs %s: use another --namespace",
				name, got, want)
		}
	}
	return missing, nil
}

// attributesQuery names every attribute, so that it is refused while one is
// not known everywhere.
func attributesQuery() string {
	var terms []string
	for name := range searchAttributes() {
		terms = append(terms, name+" IS NULL")
	}
	slices.Sort(terms)
	return strings.Join(terms, " AND ")
}

// readyWithin is generous: a cold start takes about a second.
const readyWithin = time.Minute

// poll asks until it succeeds, the context ends or readyWithin is over.
func poll(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
