package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"burnish/internal/testkit/must"
)

const (
	maxEnrollFile = 30 // seconds, on an idle machine
	// idleLoad is the load of an idle machine, for each of its processors.
	idleLoad = 0.1
	// commandFleet is how many devices one file enrolls.
	commandFleet = 500
)

// commands measures a command over many devices with a real worker: a file that enrolls 500.
func (b *bench) commands(ctx context.Context) {
	idle := loadAverage() < idleLoad*float64(runtime.NumCPU())
	p := must.Get(b.installation(ctx, "commands"))
	fleet := "devices:\n"
	for i := range commandFleet {
		fleet += fmt.Sprintf("  - {name: d%d, host: %s, driver: fake, set: {size: 64KiB}}\n", i, p.Host)
	}
	file := filepath.Join(p.Dir, "fleet.yaml")
	must.Do(os.WriteFile(file, []byte(fleet), 0o600))
	began := time.Now()
	out := must.Get(p.Must(ctx, "enroll", "-f", file))
	seconds := time.Since(began).Seconds()
	lines := strings.Count(out, "\n")
	must.Be(lines == commandFleet, "enroll printed %d lines, not one for each of %d devices", lines, commandFleet)
	b.add(single(fmt.Sprintf("`burnish enroll -f` of %d devices", commandFleet), "s", seconds).
		bounded(fmt.Sprintf("≤ %d s on an idle machine", maxEnrollFile), seconds > maxEnrollFile, idle))
}
