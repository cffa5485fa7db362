package logs

// The keys of a line, which mean the same wherever they stand. Keys has those of all lines.
const (
	Device   = "device"
	UUID     = "uuid"
	Serial   = "serial"
	Host     = "host"
	Step     = "step"
	Clean    = "clean"
	Binding  = "binding"
	Instance = "instance"

	Fault  = "fault"
	Error  = "error"
	Remedy = "remedy"

	Path        = "path"
	Bytes       = "bytes"
	Operation   = "operation"
	Method      = "method"
	Seed        = "seed"
	Note        = "note"
	Duration    = "duration"
	Offset      = "offset"
	Attempt     = "attempt"
	Reprocessed = "reprocessed_bytes_max"

	Event   = "event"
	State   = "state"
	By      = "by"
	Verb    = "verb"
	Request = "request"
	Update  = "update"

	Role     = "role"
	Worker   = "worker"
	Version  = "version"
	Variable = "variable"
	Nearest  = "nearest"
	File     = "file"
	Drivers  = "drivers"
	Paths    = "paths"
	Specs    = "device_spec"
	Scripts  = "scripts"
	Nodes    = "nodes"
	Fake     = "fake"
	Secrets  = "secrets"

	Queue    = "queue"
	Workflow = "workflow"
	Run      = "run"
	Activity = "activity"
)
