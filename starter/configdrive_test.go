package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova/configdrive"
	"burnish/internal/nova/metadata"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// The drive holds what the metadata service would give the guest: the devices that are bound to
// the instance now, as the devices themselves say.
//
// S1.23, S1.36
func TestConfigDriveHoldsTheDocument(t *testing.T) {
	d1 := contract.HeldDevice{Name: "d1", Type: "NVME", Host: "h1", Serial: "S1", Tag: "db", Binding: 3}
	lost := contract.HeldDevice{Name: "d2", Type: "NVME", Host: "h1", Serial: "S2", Tag: "old", Binding: 1}
	l := &fakeClient{
		onShowInstance: func(context.Context, string) (contract.InstanceStatus, error) {
			return has(contract.InstanceActive, d1, lost), nil
		},
		onDescribe: func(name string) (client.Execution, error) {
			mine := someInstance
			if name == "d2" {
				mine = "another"
			}
			return client.Execution{Status: contract.DeviceStatus{Name: name, InstanceUUID: &mine, Binding: 3}}, nil
		},
	}
	file := filepath.Join(t.TempDir(), "config.iso")
	got := burnish(t, l, "", "instance", "config-drive", someInstance, "-o", file)
	require.Equal(t, ran{exitOK, someInstance + ": config drive written to " + file + "; devices: 1\n", ""}, got)
	text, err := metadata.New(has(contract.InstanceActive, d1)).JSON()
	require.NoError(t, err)
	want, err := configdrive.Image(text, clock)
	require.NoError(t, err)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, written))
}

// Where there is no document, an older drive stays as it is.
func TestConfigDriveIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.iso")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	d1 := contract.HeldDevice{Name: "d1", Type: "NVME", Host: "h1", Binding: 3}
	for name, tt := range map[string]struct {
		status contract.InstanceStatus
		err    error
		says   string
	}{
		"unknown":   {contract.InstanceStatus{}, gone(), "there is no document: the instance has no devices, or gives them back"},
		"releasing": {has(contract.InstanceReleasing, d1), nil, "there is no document: the instance has no devices, or gives them back"},
		"released":  {has(contract.InstanceReleased), nil, "there is no document: the instance has no devices, or gives them back"},
		"binding":   {has(contract.InstanceBinding), nil, "there is no document yet: no device is bound (phase binding)"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &fakeClient{onShowInstance: func(context.Context, string) (contract.InstanceStatus, error) {
				return tt.status, tt.err
			}}
			got := burnish(t, l, "", "instance", "config-drive", someInstance, "--output", file)
			require.Equal(t, ran{exitFailed, "", "burnish: instance config-drive " + someInstance + ": " + tt.says +
				"; see burnish instance show " + someInstance + "\n"}, got)
		})
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
}
