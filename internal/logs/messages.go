package logs

import "log/slog"

// The messages of the trail. Programs may look for them: they change as rarely as a field of
// JSON does. Trail says what each promises.
const (
	CleanStarted = "clean started"
	StepResumed  = "step resumed"
	StepDone     = "step done"
	StepStopped  = "step stopped"
	StepFailed   = "step failed"
	CleanEnded   = "clean ended"
	Queued       = "queued for a slot"

	Bound           = "bound"
	Unbound         = "unbound"
	Returned        = "returned"
	CleanFailed     = "clean failed"
	CleanAborted    = "clean aborted"
	Refused         = "request refused"
	HostUnreachable = "host unreachable"
	HostWaitEnded   = "host no longer waited for"

	Settings       = "settings"
	Rules          = "host.yaml"
	UnknownSetting = "unknown setting"
)

// Message is one message of the trail.
type Message struct {
	Text  string
	Level slog.Level
	// Worker is the role of the workers that write it: host, control or each.
	Worker string
	// Keys are those that each such line has, More those that it may have.
	Keys, More []string
	// Means is what the line promises.
	Means string
}

// ofDevice are the keys by which each line of the trail names its device; ofClean also the
// clean, and the binding that it follows.
var (
	ofDevice = []string{Device, UUID, Serial, Host}
	ofClean  = append(ofDevice[:len(ofDevice):len(ofDevice)], Clean, Binding)
	ofStep   = append(ofClean[:len(ofClean):len(ofClean)], Step)
)

func keys(some []string, more ...string) []string {
	return append(some[:len(some):len(some)], more...)
}

// Trail lists the messages of the trail.
func Trail() []Message {
	return []Message{
		{CleanStarted, slog.LevelInfo, "host", keys(ofStep, Path, Bytes, Operation), nil,
			"the first step of a clean has its slot and begins; `bytes` is the device's size"},
		{StepResumed, slog.LevelInfo, "host", keys(ofStep, Offset, Attempt), nil,
			"a step that a crash interrupted goes on at `offset`; what lies before it is not done again"},
		{StepDone, slog.LevelInfo, "host", keys(ofStep, Path, Bytes, Method, Duration), []string{Seed, Note, Reprocessed},
			"the step has done `bytes` by `method` in `duration` of running time, over all its attempts; `seed` is that of a " +
				"sample"},
		{StepStopped, slog.LevelInfo, "host", keys(ofStep, Offset), nil,
			"the step was canceled, as by an abort, after `offset` bytes"},
		{StepFailed, slog.LevelWarn, "host", keys(ofStep, Offset, Fault, Error, Remedy), nil,
			"the step failed for good after `offset` bytes; nothing more of this clean follows on the host"},
		{CleanEnded, slog.LevelInfo, "host", ofClean, nil,
			"all steps of the clean that the host runs are done"},
		{Queued, slog.LevelDebug, "host", keys(ofStep), nil,
			"all slots of the host are taken"},

		{Bound, slog.LevelInfo, "control", keys(ofDevice, Binding, Instance, Event), nil,
			"the instance has the device: its reservation was read back"},
		{Unbound, slog.LevelInfo, "control", keys(ofDevice, Binding, Instance, Event), nil,
			"the binding has ended, by `event`"},
		{Returned, slog.LevelInfo, "control", ofClean, nil,
			"the reservation is lowered, and was read back: the device may be allocated"},
		{CleanFailed, slog.LevelWarn, "control", keys(ofClean, Fault, Error, Remedy), []string{Step},
			"the device is in state `error`, still reserved"},
		{CleanAborted, slog.LevelInfo, "control", keys(ofClean, Fault, Error, Remedy), []string{Step},
			"an operator ended the clean: the device is in state `error`, still reserved"},
		{Refused, slog.LevelInfo, "control", keys(ofDevice, Verb, Fault, Error, Remedy), []string{By},
			"what somebody asked of the device, also by the signal `clean`, was not carried out"},
		{HostUnreachable, slog.LevelWarn, "control", keys(ofDevice, Remedy), nil,
			"the device waits for its host: no worker there starts its work"},
		{HostWaitEnded, slog.LevelWarn, "control", keys(ofDevice, Duration), nil,
			"the device waits for its host no longer: the host works at it, or its work was given up"},

		{Settings, slog.LevelInfo, "each", []string{Version}, nil,
			"at the start: every setting `BURNISH_…` as it is in force, by its name, without secrets"},
		{Rules, slog.LevelInfo, "host", []string{File, Drivers, Paths, Specs, Scripts, Nodes, Fake, Secrets}, nil,
			"at the start: what may be destroyed on this host, and by which drivers"},
		{UnknownSetting, slog.LevelWarn, "each", []string{Variable}, []string{Nearest},
			"at the start: a variable `BURNISH_…` that is no setting, with the setting that is spelled most like it"},
	}
}
