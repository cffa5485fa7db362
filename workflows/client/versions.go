package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/workflows/contract"
)

// Version is one version of the control workers.
type Version struct {
	Version string `json:"version"`
	// Current: new runs of workflows begin with it.
	Current bool `json:"current"`
	// Workers are how many of them poll; Workflows how many workflows are theirs, by the listing, which
	// lags behind.
	Workers   int       `json:"workers"`
	Workflows int64     `json:"workflows"`
	Created   time.Time `json:"created"`
}

// Unversioned is the name of the workers without versions, and of the workflows that no version has yet.
const Unversioned = ""

// registeredEvery is the pause between two questions whether the server knows a version.
const registeredEvery = 200 * time.Millisecond

func (c *Client) deployment() sdkclient.WorkerDeploymentHandle {
	return c.temporal.WorkerDeploymentClient().GetHandle(contract.Deployment)
}

// BeginVersions makes a version current, if none is yet. Workers of the version poll already.
func (c *Client) BeginVersions(ctx context.Context, version string) error {
	for {
		d, err := c.deployment().Describe(ctx, sdkclient.WorkerDeploymentDescribeOptions{})
		switch {
		case err == nil && d.Info.RoutingConfig.CurrentVersion != nil:
			return nil
		case err == nil && slices.ContainsFunc(d.Info.VersionSummaries,
			func(s sdkclient.WorkerDeploymentVersionSummary) bool { return s.Version.BuildID == version }):
			// Of several that begin at once, the token lets one.
			_, err = c.deployment().SetCurrentVersion(ctx, sdkclient.WorkerDeploymentSetCurrentVersionOptions{
				BuildID: version, ConflictToken: d.ConflictToken,
			})
			return err
		case err != nil && !NotFound(err):
			return err
		}
		select { // the server learns of a version by its first poll
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(registeredEvery):
		}
	}
}

// Versions are those of the control workers that the server knows, the oldest first, and what has no version.
func (c *Client) Versions(ctx context.Context) ([]Version, error) {
	all := []Version{{Version: Unversioned}}
	d, err := c.deployment().Describe(ctx, sdkclient.WorkerDeploymentDescribeOptions{})
	if err != nil && !NotFound(err) {
		return nil, err
	}
	current := currentOf(d.Info)
	for _, s := range d.Info.VersionSummaries {
		all = append(all, Version{Version: s.Version.BuildID, Created: s.CreateTime})
	}
	pollers, err := c.pollers(ctx, contract.Queue, true)
	if err != nil {
		return nil, err
	}
	for i := range all {
		v := &all[i]
		v.Current = v.Version == current
		if v.Workflows, err = c.count(ctx, joined(versionQuery(v.Version), "ExecutionStatus = 'Running'")); err != nil {
			return nil, err
		}
		for _, p := range pollers {
			if p.GetDeploymentOptions().GetBuildId() == v.Version {
				v.Workers++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Version) int { return a.Created.Compare(b.Created) })
	return all, nil
}

func currentOf(d sdkclient.WorkerDeploymentInfo) string {
	if v := d.RoutingConfig.CurrentVersion; v != nil {
		return v.BuildID
	}
	return Unversioned
}

// The search attributes that the server sets.
const (
	deploymentAttribute = "TemporalWorkerDeployment"
	versionAttribute    = "TemporalWorkerDeploymentVersion"
)

// versionQuery selects what a version has.
func versionQuery(version string) string {
	if version == Unversioned {
		return versionAttribute + " IS NULL"
	}
	return versionAttribute + " = " + literal(contract.Deployment+":"+version)
}

// Promote makes a version the current one: new runs begin with it, and the others follow when they begin a new
// run, which they do as soon as nothing is under way.
func (c *Client) Promote(ctx context.Context, version string) error {
	_, err := c.deployment().SetCurrentVersion(ctx, sdkclient.WorkerDeploymentSetCurrentVersionOptions{BuildID: version})
	return err
}

// Drain has every workflow of another version go on with the current one at once, and says how many.
func (c *Client) Drain(ctx context.Context) (current string, moved int, err error) {
	d, err := c.deployment().Describe(ctx, sdkclient.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return "", 0, err
	}
	v := d.Info.RoutingConfig.CurrentVersion
	if v == nil {
		return Unversioned, 0, nil
	}
	once := sdkclient.WorkflowExecutionOptionsChanges{VersioningOverride: &sdkclient.VersioningOverrideChange{
		Value: &sdkclient.OneTimeVersioningOverride{TargetVersion: *v}}}
	query := joined("ExecutionStatus = 'Running'", deploymentAttribute+" = "+literal(contract.Deployment),
		versionAttribute+" != "+literal(contract.Deployment+":"+v.BuildID))
	err = c.pages(ctx, query, func(page []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		for _, info := range page {
			id := info.GetExecution()
			_, err := c.temporal.UpdateWorkflowExecutionOptions(ctx, sdkclient.UpdateWorkflowExecutionOptionsRequest{
				WorkflowId: id.GetWorkflowId(), RunId: id.GetRunId(), WorkflowExecutionOptionsChanges: once})
			switch {
			case err == nil:
				moved++
			case !NotFound(err): // it has begun a new run meanwhile
				return true, fmt.Errorf("%s: %w", id.GetWorkflowId(), err)
			}
		}
		return false, nil
	})
	return v.BuildID, moved, err
}
