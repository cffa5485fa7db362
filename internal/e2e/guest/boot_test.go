package guest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBoot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	dir := t.TempDir()
	began := time.Now()
	g, err := Start(ctx, Config{Dir: dir, Worker: "/tmp/h-guest/bin/burnish-worker", Controllers: []Controller{
		{Serial: "S1", Subsystem: true, Namespaces: []Namespace{{Image: filepath.Join(dir, "1.img"), Size: 64 << 20}, {Image: filepath.Join(dir, "1b.img"), Size: 8 << 20, Detached: true}}},
		{Serial: "S2", Namespaces: []Namespace{{Image: filepath.Join(dir, "2.img"), Size: 32 << 20, BlockSize: 4096}}},
		{Serial: "S3", Subsystem: true, Namespaces: []Namespace{{Image: filepath.Join(dir, "3.img"), Size: 32 << 20, Metadata: 8}}},
		{Serial: "S4"},
	}})
	if g != nil {
		defer g.Kill()
	}
	require.NoError(t, err)
	t.Logf("start %s, boot %s", time.Since(began), g.Age())
	for _, c := range []string{"cat /proc/uptime; dmesg | tail -60; cat /proc/mounts; ls -l /sys/class/nvme/ /sys/block/ /dev/nvme*; lsmod; free; date", NVMe + " list -v; grep . /sys/block/*/metadata_bytes /sys/block/*/hidden; cat /sys/class/nvme/nvme*/serial", "nosuch", "ls /proc/$(cat /run/worker.pid)/fd", "dd if=/dev/zero of=/dev/nvme0n1 bs=1M oflag=direct 2>&1", "time blkdiscard -z /dev/nvme0n1"} {
		b := time.Now()
		out, err := g.Run(ctx, c)
		t.Log(time.Since(b), err, out.Stdout, out.Stderr)
	}
	t.Log(g.Console())
	t.Log(g.WorkerLog())
	b := time.Now()
	t.Log(g.Stop(ctx), time.Since(b))
}
