package activities

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"burnish/workflows/contract"
)

// WatchInterval is how often a host's worker looks whether its devices changed.
const WatchInterval = 10 * time.Second

// sum stands for all that a host sees.
type findingsDigest [sha256.Size]byte

// Watch tells the host's workflow that the worker started, which starts the workflow
// where there is none, and then each time that what the host sees has changed. It
// returns when ctx ends; what fails is logged when it begins, and tried again.
func (s *HostScanner) Watch(ctx context.Context, every time.Duration) {
	var (
		told    findingsDigest
		started bool
		trouble string
	)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		seen, err := s.digest(ctx)
		if err == nil && (!started || seen != told) {
			if err = s.requestScan(ctx, !started); err == nil {
				told, started = seen, true
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			trouble = ""
		} else if err.Error() != trouble {
			trouble = err.Error()
			s.Log.Warn("watching for devices failed and is tried again", "error", err, "every", every)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *HostScanner) digest(ctx context.Context) (findingsDigest, error) {
	all, err := FindDevices(ctx, s.Drivers)
	if err != nil {
		return findingsDigest{}, err
	}
	text, err := json.Marshal(all)
	return sha256.Sum256(text), err
}

func (s *HostScanner) requestScan(ctx context.Context, started bool) error {
	look := contract.ScanRequest{Source: "its devices changed", WorkerStarted: started}
	if started {
		look.Source = "host start"
	}
	_, err := s.Client.SignalWithStartWorkflow(ctx, contract.HostScanWorkflowID(s.Host.Name()), contract.SignalScanNow, look,
		contract.HostScanStartOptions(s.Host.Name()), contract.WorkflowHostScan, contract.HostScanInput{Host: s.Host.Name()})
	return err
}
