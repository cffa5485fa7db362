package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (a *app) oneviewCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "oneview COMMAND",
		Short: "the appliances whose servers are shared with other users",
		Long: `A server of a shared pool is taken only while it is used. See burnish oneview COMMAND
--help.`,
		Example: "  burnish oneview status",
	}, a.oneviewStatusCommand(), a.oneviewMigrateCommand())
}

func (a *app) oneviewStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status [APPLIANCE]",
		Short: "show what the polls of the appliances found, and when",
		Long: `A round of the polls compares all servers of an appliance with the devices, and asks those
devices to check that differ: taken by others, freed by them, or taken before a clean that
failed. Without APPLIANCE all are listed that a control worker polls, one a line.

A round now, by Temporal's own command line:
  temporal workflow signal --workflow-id oneview/APPLIANCE --name look_now`,
		Example: "  burnish oneview status rack1",
		Args:    atMostOne("APPLIANCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.devices(cmd.Context(), func(l deviceClient) error {
				if len(args) == 1 {
					s, err := a.polls(cmd.Context(), l, args[0])
					if err != nil {
						return err
					}
					return a.emit(s, func() string { return s.table(a) })
				}
				return a.allPolls(cmd.Context(), l)
			})
		},
	}
}

// applianceStatus is the state of an appliance's polls, for programs.
type applianceStatus struct {
	Appliance string `json:"appliance"`
	// Interval is in seconds; 0: the polls are off.
	Interval float64 `json:"periodic_check_interval"`
	// LastGood is null before the first round in which every page was read; Last is what it
	// found. Next is null where none is due: while a round runs, and while the polls are off.
	LastGood *time.Time          `json:"last_good"`
	Last     contract.PollCounts `json:"last"`
	Next     *time.Time          `json:"next"`
	Rounds   int                 `json:"rounds"`
	Round    *runningRound       `json:"round"`
	// Fault is why the last round was not complete: Unread of its pages were not read.
	Fault         *device.Fault       `json:"fault"`
	Unread        int                 `json:"unread"`
	NeedsOperator bool                `json:"needs_operator"`
	Problems      []contract.Mismatch `json:"problems"`
}

// runningRound is the round that runs: so many servers of Total were compared.
type runningRound struct {
	StartedAt time.Time `json:"started_at"`
	Servers   int       `json:"servers"`
	Total     int       `json:"total"`
}

// polls asks an appliance's workflow for the state of its polls.
func (a *app) polls(ctx context.Context, l deviceClient, appliance string) (applianceStatus, error) {
	qctx, cancel := a.requestContext(ctx)
	defer cancel()
	s, err := l.OneViewState(qctx, appliance)
	if err != nil {
		return applianceStatus{}, a.explainAppliance(ctx, l, appliance, err)
	}
	out := applianceStatus{
		Appliance: appliance, Interval: s.Interval.Seconds(), LastGood: timeOrNil(s.LastGood), Last: s.Last,
		Next: timeOrNil(s.Next), Rounds: s.Rounds,
		Fault: s.Fault, Unread: s.Unread, NeedsOperator: s.NeedsOperator,
		Problems: append([]contract.Mismatch{}, s.Problems...),
	}
	if r := s.Round; r != nil {
		out.Round = &runningRound{StartedAt: r.StartedAt, Servers: r.Start, Total: r.Total}
	}
	return out, nil
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// allPolls shows all appliances that have a workflow.
func (a *app) allPolls(ctx context.Context, l deviceClient) error {
	names, err := ask(ctx, a, l, "", l.Appliances)
	if err != nil {
		return err
	}
	all := make([]applianceStatus, 0, len(names))
	for _, name := range names {
		s, err := a.polls(ctx, l, name)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return a.emit(all, func() string {
		if len(all) == 0 {
			return "no appliance is polled: no control worker has BURNISH_ONEVIEW, or the polls were canceled\n"
		}
		rows := [][]string{{"APPLIANCE", "LAST GOOD", "SERVERS", "DEVICES", "TAKEN", "FREED", "CLEAN FAIL", "FAILED",
			"NEXT", "FAULT"}}
		for _, s := range all {
			row := []string{s.Appliance, "never", "", "", "", "", "", "", s.next(), ""}
			if s.LastGood != nil {
				row[1] = age(a.now(), *s.LastGood) + " ago"
				for i, n := range []int{s.Last.Servers, s.Last.Devices, s.Last.Taken, s.Last.Freed, s.Last.TakenOnCleanFail,
					s.Last.Failed} {
					row[2+i] = strconv.Itoa(n)
				}
			}
			if s.Fault != nil {
				row[9] = string(s.Fault.Code)
			}
			rows = append(rows, row)
		}
		return a.columns(rows)
	})
}

// next says when the next round is.
func (s applianceStatus) next() string {
	switch {
	case s.Round != nil:
		return fmt.Sprintf("runs: %d of %d servers", s.Round.Servers, s.Round.Total)
	case s.Next != nil:
		return local(*s.Next)
	case s.Interval == 0:
		return "polls are off"
	}
	return "now"
}

// table is one appliance for people.
func (s applianceStatus) table(a *app) string {
	lastGood, found := "never", ""
	if s.LastGood != nil {
		lastGood = local(*s.LastGood) + " (" + age(a.now(), *s.LastGood) + " ago)"
		c := s.Last
		found = fmt.Sprintf("%d servers, %d devices: %d taken, %d freed, %d taken on clean fail, %d failed", c.Servers,
			c.Devices, c.Taken, c.Freed, c.TakenOnCleanFail, c.Failed)
	}
	rows := [][]string{{"appliance", s.Appliance}, {"last good round", lastGood}, {"it found", found},
		{"rounds", strconv.Itoa(s.Rounds)}, {"next round", s.next()}}
	if s.Interval > 0 {
		rows = append(rows, []string{"interval", (time.Duration(s.Interval * float64(time.Second))).String()})
	}
	rows = append(rows, []string{"needs operator", yes(s.NeedsOperator)})
	if s.Fault != nil {
		rows = append(rows, []string{"fault", string(s.Fault.Code) + ": " + s.Fault.Message},
			[]string{"pages not read", strconv.Itoa(s.Unread)}, []string{"remedy", s.Fault.Remedy})
	}
	for _, m := range s.Problems {
		rows = append(rows, []string{"problem", m.Name + ": " + m.What})
	}
	return a.pairs(rows)
}
