package contract

import (
	"reflect"
	"strings"
)

// Effect is what a verb may do to a device, beside its state.
type Effect uint8

// The effects. Keeps: neither its contents nor its tenant nor its service change.
const (
	// Erases: a step may overwrite the device.
	Erases Effect = 1 << iota
	// EndsBinding: a tenant may lose the device.
	EndsBinding
	// Retires: the device leaves service.
	Retires
	Keeps Effect = 0
)

// Verb is one thing that is asked of a device, or of an instance. What its entry says is said
// nowhere else: from it come the update of the workflow, the client's call and its dry run, the HTTP
// API's route with its body, its rule and its part of the document, the command with its flags, and
// whether that command asks before it acts.
type Verb struct {
	// Name is the command's. With _ for - it is the update's and, but for HTTP.Path, the rule's.
	Name string
	// About says in one line what it does.
	About string
	// Input is the zero value of its input. Its flags, and what of it the HTTP API takes, say the
	// tags of its fields.
	Input Input
	// May is what it may do to a device.
	May Effect
	// Internal: Burnish's own workflows send it, and no client.
	Internal bool
	// HTTP is how it is found over HTTP where its name and input do not say so.
	HTTP HTTP
	// Command is how it is found on the command line.
	Command Command
}

// HTTP is a verb's exception over HTTP: what Cyborg's API has fixed.
type HTTP struct {
	// Path is the last segment of its path; "" is the verb's name.
	Path string
	// Body is the form of its body; nil is its input.
	Body Body
	// Since is the first microversion 2.x that has it.
	Since int
	// Status is that of its success; 0 is 200.
	Status int
}

// Body is a form of an input over HTTP that is not the input's own.
type Body interface {
	// Of is the body that asks for the input.
	Of(Input) Body
	// Input is what the body asks for.
	Input() Input
}

// Command is what the command line says of a verb; one without Use has no command of its own.
type Command struct {
	// Does and Done say what is done, and what was: "release" and "released". A question and a dry run
	// say the one, the answer the other.
	Does, Done string
	// Use is the command's line of use after its name, Form further ones, Long what else there is to know.
	Use, Form, Long, Example string
	// Reason is what the flag --reason says; MustSay why there must be one, "" where there need not.
	Reason, MustSay string
	// Many: it takes several names, or what chooses devices.
	Many bool
	// Tenants: it is for what starts and stops guests, not for operators.
	Tenants bool
	// Waits: it may wait for the end of the clean that it starts; Waited says what was done then.
	Waits  bool
	Waited string
}

const (
	keptWithDevice = "why; kept with the device"
	keptWithClean  = "why; kept with the clean"

	keptWithInstance = "why; kept with the instance"
)

// What is asked of a device.
var (
	VerbEnroll = Verb{Name: "enroll", About: "take a device into service", Input: EnrollInput{}}

	VerbClaim   = Verb{Name: "claim", About: "hold the device for an instance until a deadline", Input: BindInput{}, Internal: true}
	VerbBurn    = Verb{Name: "burn", About: "burn a claimed device and bind it to its instance", Input: BindInput{}, Internal: true}
	VerbUnclaim = Verb{Name: "unclaim", About: "cancel a claim before its burn", Input: BindInput{}, Internal: true}

	VerbBind = Verb{Name: "bind", About: "reserve a device and bind it to an instance", Input: BindInput{},
		Command: Command{Tenants: true, Does: "bind", Done: "bound", Use: "NAME --instance UUID", Reason: keptWithDevice,
			Long:    "It returns when the device is reserved. Start the guest only after that.",
			Example: "  burnish bind h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"}}
	VerbUnbind = Verb{Name: "unbind", About: "end an instance's binding; the clean then starts by itself", Input: UnbindInput{}, May: EndsBinding,
		Command: Command{Tenants: true, Does: "unbind", Done: "unbound", Use: "NAME --instance UUID", Reason: keptWithDevice,
			Long:    "The device is dirty from then on: no other instance gets it before it is clean.",
			Example: "  burnish unbind h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"}}
	VerbRebuild = Verb{Name: "rebuild", About: "rebuild an instance; it keeps its device, and nothing is cleaned", Input: UnbindInput{},
		Command: Command{Tenants: true, Does: "rebuild", Done: "rebuilt", Use: "NAME --instance UUID", Reason: keptWithDevice,
			Long:    "The device stays bound, and its data stays as it is.",
			Example: "  burnish rebuild h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"}}

	VerbProvide = Verb{Name: "provide", About: "clean a manageable device and make it available", Input: ReasonInput{}, May: Erases,
		Command: Command{Does: "provide", Done: "provided", Use: "NAME…", Reason: keptWithDevice, Many: true, Waits: true,
			Example: "  burnish provide h1_0000:01:00.0 --wait --timeout 20m"}}
	VerbClean = Verb{Name: "clean", About: "clean a device now: again after a failure, with named steps or a runbook", Input: CleanInput{}, May: Erases,
		HTTP: HTTP{Body: CleanBody{}, Since: 1, Status: 202},
		Command: Command{Does: "clean", Done: "clean requested", Use: "NAME…", Reason: keptWithClean, Many: true, Waits: true, Waited: "cleaned",
			Long: `In state error: repeats the whole clean. In state manageable: runs named steps or a
runbook; they never clear the dirty flag. In state pending_cleaning while automated
cleaning is off: starts the clean.`,
			Example: `  burnish clean --state error --host h1 --dry-run
  burnish clean h1_0000:01:00.0 --wait
  burnish clean node1 --steps bios_apply --arg BootMode=Uefi`}}
	VerbAbort = Verb{Name: "abort", About: "stop the running clean; the device goes to state error", Input: ReasonInput{},
		Command: Command{Does: "abort", Done: "abort requested", Use: "NAME…", Reason: keptWithClean, Many: true,
			Example: "  burnish abort h1_0000:01:00.0"}}
	VerbReleaseHold = Verb{Name: "release-hold", About: "go on with a clean that its runbook holds", Input: ReasonInput{}, May: Erases,
		Command: Command{Does: "release", Done: "released", Use: "NAME…", Reason: "what was done; kept with the clean", Many: true,
			Example: `  burnish release-hold node1 --reason "asset tag set"`}}
	VerbManage = Verb{Name: "manage", About: "take a device out of the offer", Input: TenantInput{}, May: EndsBinding,
		Command: Command{Does: "manage", Done: "taken out of the offer", Use: "NAME…", Reason: keptWithDevice, Many: true,
			Example: "  burnish manage h1_0000:01:00.0"}}
	VerbMaintain = Verb{Name: "maintain", About: "put a device on hold for new tenants, or release it", Input: MaintenanceInput{},
		HTTP: HTTP{Path: "maintenance"},
		Command: Command{Does: "hold", Done: "on hold", Use: "NAME… --reason R", Form: "NAME… --off", Reason: "why it is put on hold", Many: true,
			Example: `  burnish maintain --host h1 --reason "kernel upgrade" --yes`}}
	VerbLabel = Verb{Name: "label", About: "change the labels of devices", Input: LabelInput{},
		Command: Command{Does: "label", Done: "labeled", Use: "NAME… KEY=VALUE… KEY-…", Reason: keptWithDevice, Many: true,
			Long: `KEY=VALUE sets a label, and KEY- removes it. Keys and values have at most 63 letters, digits
and - _ . , and a device has at most 16 labels. They select devices by --label, and decide
nothing.`,
			Example: `  burnish label h1_0000:01:00.0 rack=a1 tier=gold
  burnish label --host h1 rack=a2 tier- --overwrite`}}
	VerbRetire = Verb{Name: "retire", About: "take a device out of service; it stays permanently reserved", Input: RetireInput{}, May: EndsBinding | Retires,
		Command: Command{Does: "retire", Done: "retired", Use: "NAME… --reason R", Reason: keptWithDevice, Many: true,
			MustSay: "a retired device stays permanently reserved",
			Example: `  burnish retire h1_0000:01:00.0 --reason "worn out"`}}
	VerbForget = Verb{Name: "forget", About: "delete a retired device's record", Input: TenantInput{}, May: EndsBinding | Retires,
		Command: Command{Does: "forget", Done: "forgotten", Use: "NAME", Reason: keptWithDevice,
			Long:    "Its history goes with it. The hardware can then be enrolled again, as a new device.",
			Example: "  burnish forget h1_0000:01:00.0"}}
	VerbReplace = Verb{Name: "replace", About: "accept new hardware in the device's slot", Input: ReplaceInput{}, May: Erases | EndsBinding,
		Command: Command{Does: "replace", Done: "replaced", Use: "NAME", Reason: keptWithDevice,
			Long: `The hardware that is in the slot now becomes the device's next unit. It is dirty, and
the device's history is kept. Allowed in state error, manageable or retired.`,
			Example: "  burnish replace h1_0000:01:00.0 --provide"}}
	VerbMove = Verb{Name: "move", About: "record that the hardware is now in another slot", Input: MoveInput{}, May: EndsBinding,
		Command: Command{Does: "move", Done: "moved", Use: "OLD NEW", Reason: keptWithDevice,
			Long: `The state and the history are kept under the name NEW, and OLD ends. The device is dirty.
The host must find the same serial in the new slot. Allowed in state error or manageable. A
flag that is not given keeps its value; a NEW of the form HOST_ADDRESS sets both.`,
			Example: "  burnish move h1_0000:01:00.0 h2_0000:41:00.0"}}

	// VerbPower: only a driver with power control can.
	VerbPower = Verb{Name: "power", About: "switch a device on or off, or reset it", Input: PowerInput{},
		Command: Command{Does: "power", Done: "done", Use: "NAME on|off|reset", Reason: keptWithDevice,
			Long: `Refused while the device is cleaned. on and off may be repeated; a reset is sent at most
once: where its outcome is not known, the answer says so.`,
			Example: "  burnish power node1 off"}}
	// VerbOverride offers a device in state error without a clean; the API signs its input (D2).
	VerbOverride = Verb{Name: "override", About: "offer a device in state error without a clean", Input: OverrideInput{},
		HTTP: HTTP{Since: 1},
		Command: Command{Does: "override", Done: "overridden", Use: "NAME --reason R [--expires DURATION]", Form: "NAME --approve ID", Reason: "why the device is needed without a clean",
			Long: `One person requests it, and another one approves it before it expires; then the device
becomes available, marked as not sanitized until its next full clean. Both go through the
HTTP API (--api), which knows who asks. It is off unless BURNISH_API_KEY is set for the
control workers.`,
			Example: `  burnish --api https://control1:8480 override h1_0000:01:00.0 --reason "capacity" --expires 2h
  burnish --api https://control1:8480 override h1_0000:01:00.0 --approve 0f8e6f5c-7f0e-4d1c-9b65-0f6a1f1d2a11`}}
	// VerbImportHistory gives a device back what an export kept of it, after its Temporal database was lost.
	VerbImportHistory = Verb{Name: "import-history", About: "add what an export kept of the device's labels, cleans and acts", Input: ImportHistoryInput{}}
	// VerbMigratePool makes a pre-allocated device dynamic (S4.34). Only devices of a pool can.
	VerbMigratePool = Verb{Name: "migrate-pool", About: "make a pre-allocated server of a shared pool dynamic", Input: ReasonInput{}}
	// VerbResume is asked of the workflow of the limits, not of a device.
	VerbResume = Verb{Name: "resume", About: "close the breaker of a step on a model", Input: ResumeInput{}}
)

// Verbs are what is asked of a device.
var Verbs = []Verb{
	VerbEnroll, VerbClaim, VerbBurn, VerbUnclaim, VerbBind, VerbUnbind, VerbRebuild, VerbProvide, VerbClean, VerbAbort, VerbReleaseHold,
	VerbManage, VerbMaintain, VerbLabel, VerbRetire, VerbForget, VerbPower, VerbOverride, VerbReplace, VerbMove, VerbImportHistory,
	VerbMigratePool,
}

// What is asked of an instance. Bind, attach and detach need no workflow of it.
var (
	VerbInstanceBind = Verb{Name: "bind", About: "reserve several devices for an instance: all of them, or none", Input: InstanceBindInput{},
		Command: Command{Done: "bound", Use: "UUID --device NAME[=TAG] [--guest …]…", Form: "UUID --request type=T[,count=N]…\nUUID --file FILE", Reason: keptWithInstance,
			Long: `It returns when all devices are reserved. Start the guest only after that. If one device is
refused, none is bound. What was only claimed is free again; what was already being reserved
is cleaned.

FILE:

  host: h1
  project: 9c1f0ab2d6c84e5f8c0e4c0f7a1d2b3e
  addresses: [10.0.0.5]
  devices:
    - name: h1_0000:01:00.0
      tag: database
      guest: [{bus: pci, address: "0000:00:05.0"}]
  requests:
    - {type: NVME, count: 2, traits: [HW_NVME_CES]}`,
			Example: `  burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 \
    --device h1_0000:01:00.0=database --guest bus=pci,address=0000:00:05.0 \
    --device h1_0000:02:00.0=uplink
  burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --request type=NVME,count=2,trait=HW_NVME_CES
  virsh dumpxml vm1 | burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 \
    --device h1_0000:01:00.0=database --domain -`}}
	VerbInstanceAttach = Verb{Name: "attach", About: "add devices to an instance: all of them, or none", Input: InstanceBindInput{},
		Command: Command{Done: "attached", Use: "UUID --device NAME[=TAG] [--guest …]…", Form: "UUID --request type=T[,count=N]…\nUUID --file FILE", Reason: keptWithInstance,
			Long: `A device that the instance already has is not bound again: its guest's addresses are
recorded, if they are given.`,
			Example: "  burnish instance attach 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --device h1_0000:03:00.0=scratch"}}
	VerbInstanceDetach = Verb{Name: "detach", About: "take devices from an instance; each is then cleaned by itself", Input: InstanceDetachInput{},
		Command: Command{Done: "detached", Use: "UUID NAME…", Reason: keptWithInstance,
			Long: `A device leaves the document that the guest reads before its binding ends. Remove it from
the guest first: its data is erased.`,
			Example: "  burnish instance detach 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 h1_0000:03:00.0"}}
	VerbInstanceRelease = Verb{Name: "release", About: "take all devices from an instance that is deleted", Input: ReasonInput{},
		Command: Command{Done: "released", Use: "UUID", Reason: keptWithInstance,
			Long: `Its document is gone before the first binding ends. During a migration the devices of both
hosts are released. Each device is then cleaned by itself.`,
			Example: "  burnish instance release 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"}}
	VerbInstanceRebuild = Verb{Name: "rebuild", About: "rebuild an instance; it keeps its devices, and nothing is cleaned", Input: ReasonInput{},
		Command: Command{Done: "rebuilt", Use: "UUID", Reason: keptWithInstance,
			Long:    "The devices stay bound, and their data stays as it is.",
			Example: "  burnish instance rebuild 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"}}
	VerbInstanceMigrate = Verb{Name: "migrate", About: "bind devices on another host, until confirm or revert", Input: InstanceMoveInput{},
		Command: Command{Use: "UUID --to HOST", Reason: keptWithInstance,
			Long: `The instance has the devices of both hosts until burnish instance confirm or revert. From
now on the guest's document shows the new ones, with the same tags. No data is copied
between devices.`,
			Example: "  burnish instance migrate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2"}}
	VerbInstanceLiveMigrate = Verb{Name: "live-migrate", About: "bind devices on another host for a guest that keeps running", Input: InstanceMoveInput{},
		Command: Command{Use: "UUID --to HOST", Reason: keptWithInstance,
			Long: `As migrate, but only if each device on both hosts is marked live-migratable; otherwise it is
refused, and nothing is bound. Ended by burnish instance confirm or revert.`,
			Example: "  burnish instance live-migrate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2"}}
	VerbInstanceConfirm = Verb{Name: "confirm", About: "end a migration: the instance stays on the new host", Input: ReasonInput{},
		Command: Command{Done: "confirmed", Use: "UUID", Reason: keptWithInstance,
			Long:    "The devices of the old host stay reserved, and are cleaned.",
			Example: "  burnish instance confirm 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"}}
	VerbInstanceRevert = Verb{Name: "revert", About: "take a migration back: the instance stays on the old host", Input: ReasonInput{},
		Command: Command{Done: "reverted", Use: "UUID", Reason: keptWithInstance,
			Long: `The devices of the new host stay reserved, and are cleaned. Those of the old host are the
instance's again, as they were.`,
			Example: "  burnish instance revert 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"}}
	VerbInstanceEvacuate = Verb{Name: "evacuate", About: "give an instance devices on another host, because its own is lost", Input: InstanceMoveInput{},
		Command: Command{Done: "evacuated", Use: "UUID --to HOST", Reason: keptWithInstance,
			Long:    "The old host need not answer. Its devices stay reserved, and are cleaned when it is back.",
			Example: "  burnish instance evacuate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2"}}
)

// InstanceVerbs are what is asked of an instance.
var InstanceVerbs = []Verb{
	VerbInstanceBind, VerbInstanceAttach, VerbInstanceDetach, VerbInstanceRelease, VerbInstanceRebuild,
	VerbInstanceMigrate, VerbInstanceLiveMigrate, VerbInstanceConfirm, VerbInstanceRevert, VerbInstanceEvacuate,
}

// Update is the name of the workflow's update.
func (v Verb) Update() string { return strings.ReplaceAll(v.Name, "-", "_") }

// Path is the last segment of the verb's path over HTTP.
func (v Verb) Path() string {
	if v.HTTP.Path != "" {
		return v.HTTP.Path
	}
	return v.Name
}

// Rule is the last word of the API's rule.
func (v Verb) Rule() string { return strings.ReplaceAll(v.Path(), "-", "_") }

// Takes says whether an input is the verb's.
func (v Verb) Takes(in Input) bool { return reflect.TypeOf(in) == reflect.TypeOf(v.Input) }
