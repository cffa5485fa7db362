package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"burnish/workflows/contract"
)

// WatchInterval is how often a host's worker checks whether its devices changed.
const WatchInterval = 10 * time.Second

// Watch asks the host's workflow for a scan when the worker starts, and each time that the
// devices of the host have changed, or which of them are enrolled (a device that a scan listed as
// refused is not refused once it was enrolled or imported), or a scan has seen other devices. It
// starts a workflow that does not run. It returns when ctx ends; an error is logged once and retried.
func (s *HostScanner) Watch(ctx context.Context, every time.Duration) {
	var (
		sent      string
		started   bool
		lastError string
	)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		found, devices, err := s.findings(ctx)
		if err == nil {
			if scanned := s.scanned.Swap(nil); scanned != nil && *scanned != devices {
				sent = "" // a device was gone, or was there, for the scan alone
			}
		}
		if err == nil && (!started || found != sent) {
			if err = s.requestScan(ctx, !started); err == nil {
				sent, started = found, true
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			lastError = ""
		} else if err.Error() != lastError {
			lastError = err.Error()
			s.Log.Warn("watching for devices failed and is retried", "error", err, "every", every)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// findings gives the devices that the host's drivers find, and as found these with the names of those
// that are enrolled there.
func (s *HostScanner) findings(ctx context.Context) (found, devices string, err error) {
	all, err := FindDevices(ctx, s.Drivers)
	if err != nil {
		return "", "", err
	}
	list, err := json.Marshal(all)
	if err != nil {
		return "", "", err
	}
	// A record that is unreadable is a change too: the scan logs it.
	records, unreadable := s.Host.ListRecords()
	enrolled := []string{}
	for _, r := range records {
		if !r.Forgotten {
			enrolled = append(enrolled, r.Name)
		}
	}
	return string(list) + fmt.Sprint(enrolled, unreadable), string(list), nil
}

func (s *HostScanner) requestScan(ctx context.Context, started bool) error {
	if s.CheckServer != nil {
		if err := s.CheckServer(ctx); err != nil {
			return err
		}
	}
	request := contract.ScanRequest{Source: "its devices changed", WorkerStarted: started}
	if started {
		request.Source = "host start"
	}
	return s.Client.ScanNow(ctx, s.Host.Name(), request)
}
