package main

const instanceUsage = `burnish instance: the devices of an instance: all or none, with roles, also when it moves

usage: burnish instance COMMAND UUID [flags]

  bind          reserve several devices for an instance: all of them, or none
  attach        add devices to an instance
  detach        take devices from an instance; each is then cleaned by itself
  release       take all devices from an instance that is deleted
  rebuild       rebuild an instance; it keeps its devices, and nothing is cleaned
  migrate       bind devices on another host, until confirm or revert
  live-migrate  the same for a running guest; only live-migratable devices
  confirm       end a migration: the instance stays on the new host
  revert        take a migration back: the instance stays on the old host
  evacuate      give an instance devices on another host, because its own is lost
  show          show an instance: its devices, their roles and what is under way
  config-drive  write the document that the guest reads as a config drive
  schema        print the JSON Schema of the document that guests read

See burnish instance COMMAND --help.

example:
  burnish instance show 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90
`

// guestUsage is the part of the usage that bind, attach and the moves share.
const guestUsage = `      --guest bus=B[,address=A][,path=P][,devname=N]
                            where the guest finds the device: right behind its --device.
                            bus is pci, usb, scsi, ide, xen or none; address has the form
                            of the bus; path and devname only where they are fixed in the
                            guest. Repeatable: Xen shows a disk on two buses. Without it
                            the guest's address is not known, and left out
      --domain FILE         the guest's addresses from libvirt's domain, as virsh dumpxml
                            prints it; - is the standard input. Of a device with --guest,
                            that counts
`

const deviceFlagsUsage = `      --device NAME[=TAG]   a device, and its role in the guest; repeatable. A TAG has 1 to
                            60 characters, but no comma and no slash
` + guestUsage + `      --request type=T[,count=N][,trait=HW_X]…[,vendor=V][,model=M][,tag=TAG]
                            free devices, which Burnish picks: all on one host; repeatable,
                            and so is trait. With live_migratable=true only such devices
      --host H              the host of the requested devices
  -f, --file FILE           devices, requests, host, project and addresses from a file of
                            YAML; - is the standard input
      --request-id ID       a repeated request with the same ID binds nothing more
      --reason TEXT         why; kept with the instance
  -o, --output table|json|yaml
      --timeout DURATION    (30s)
`

const instanceBindUsage = `burnish instance bind: reserve several devices for an instance: all of them, or none

usage: burnish instance bind UUID --device NAME[=TAG] [--guest …]… [flags]
       burnish instance bind UUID --request type=T[,count=N]… [flags]
       burnish instance bind UUID --file FILE [flags]

It returns when all devices are reserved. Start the guest only after that. If one device is
refused, none is bound. What was only claimed is free again; what was already being reserved
is cleaned.

` + deviceFlagsUsage + `      --project ID          the instance's project, for the metadata service
      --address IP          an address of the guest, for the metadata service; repeatable

FILE:

  host: h1
  project: 9c1f0ab2d6c84e5f8c0e4c0f7a1d2b3e
  addresses: [10.0.0.5]
  devices:
    - name: h1_0000:01:00.0
      tag: database
      guest: [{bus: pci, address: "0000:00:05.0"}]
  requests:
    - {type: NVME, count: 2, traits: [HW_NVME_CES]}

example:
  burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 \
    --device h1_0000:01:00.0=database --guest bus=pci,address=0000:00:05.0 \
    --device h1_0000:02:00.0=uplink
  burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --request type=NVME,count=2,trait=HW_NVME_CES
  virsh dumpxml vm1 | burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 \
    --device h1_0000:01:00.0=database --domain -
`

const instanceAttachUsage = `burnish instance attach: add devices to an instance: all of them, or none

usage: burnish instance attach UUID --device NAME[=TAG] [--guest …]… [flags]
       burnish instance attach UUID --request type=T[,count=N]… [flags]
       burnish instance attach UUID --file FILE [flags]

A device that the instance already has is not bound again: its guest's addresses are
recorded, if they are given.

` + deviceFlagsUsage + `
example:
  burnish instance attach 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --device h1_0000:03:00.0=scratch
`

const actFlagsUsage = `      --reason TEXT         why; kept with the instance
  -o, --output table|json|yaml
      --timeout DURATION    (30s)
`

const instanceDetachUsage = `burnish instance detach: take devices from an instance; each is then cleaned by itself

usage: burnish instance detach UUID NAME… [flags]

A device leaves the document that the guest reads before its binding ends. Remove it from
the guest first: its data is erased.

` + actFlagsUsage + `
example:
  burnish instance detach 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 h1_0000:03:00.0
`

const instanceReleaseUsage = `burnish instance release: take all devices from an instance that is deleted

usage: burnish instance release UUID [flags]

Its document is gone before the first binding ends. During a migration the devices of both
hosts are released. Each device is then cleaned by itself.

` + actFlagsUsage + `
example:
  burnish instance release 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90
`

const instanceRebuildUsage = `burnish instance rebuild: rebuild an instance; it keeps its devices, and nothing is cleaned

usage: burnish instance rebuild UUID [flags]

` + actFlagsUsage + `
example:
  burnish instance rebuild 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90
`

const moveFlagsUsage = `      --to HOST             where the instance moves
      --device NAME[=TAG]   the devices to take there: one for each of the instance's, in
                            their order. Without it free ones of the same type, vendor and
                            model are taken. The roles' tags stay; a TAG must be the same
` + guestUsage + actFlagsUsage

const instanceMigrateUsage = `burnish instance migrate: bind devices on another host, until confirm or revert

usage: burnish instance migrate UUID --to HOST [flags]

The instance has the devices of both hosts until burnish instance confirm or revert. From
now on the guest's document shows the new ones, with the same tags. No data is copied
between devices.

` + moveFlagsUsage + `
example:
  burnish instance migrate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2
`

const instanceLiveMigrateUsage = `burnish instance live-migrate: bind devices on another host for a guest that keeps running

usage: burnish instance live-migrate UUID --to HOST [flags]

As migrate, but only if each device on both hosts is marked live-migratable; otherwise it is
refused, and nothing is bound. Ended by burnish instance confirm or revert.

` + moveFlagsUsage + `
example:
  burnish instance live-migrate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2
`

const instanceConfirmUsage = `burnish instance confirm: end a migration: the instance stays on the new host

usage: burnish instance confirm UUID [flags]

The devices of the old host stay reserved, and are cleaned.

` + actFlagsUsage + `
example:
  burnish instance confirm 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90
`

const instanceRevertUsage = `burnish instance revert: take a migration back: the instance stays on the old host

usage: burnish instance revert UUID [flags]

The devices of the new host stay reserved, and are cleaned. Those of the old host are the
instance's again, as they were.

` + actFlagsUsage + `
example:
  burnish instance revert 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90
`

const instanceEvacuateUsage = `burnish instance evacuate: give an instance devices on another host, because its own is lost

usage: burnish instance evacuate UUID --to HOST [flags]

The old host need not answer. Its devices stay reserved, and are cleaned when it is back.

` + moveFlagsUsage + `
example:
  burnish instance evacuate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2
`

const instanceShowUsage = `burnish instance show: show an instance: its devices, their roles and what is under way

usage: burnish instance show UUID [flags]

  -o, --output table|json|yaml
      --timeout DURATION    (30s)

It needs a running control worker.

example:
  burnish instance show 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 -o json
`

const instanceSchemaUsage = `burnish instance schema: print the JSON Schema of the document that guests read

usage: burnish instance schema

example:
  burnish instance schema > device-role-tagging.json
`
