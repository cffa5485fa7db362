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
	Reason  = "reason"
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

// Key is one key and its meaning.
type Key struct{ Name, Means string }

// Keys lists the keys of all lines.
func Keys() []Key {
	return []Key{
		{Device, "the device's name"},
		{UUID, "its UUID, which is its provider's too"},
		{Serial, "the serial that was enrolled; empty if it is not known"},
		{Host, "the host that the device is on"},
		{Step, "the step of a clean"},
		{Clean, "the clean's number of this device, as in `burnish history`"},
		{Binding, "the binding's number of this device; in a line about a clean, that of the binding that it follows"},
		{Instance, "the instance's UUID"},

		{Fault, "the fault's code, as in [faults](faults.md)"},
		{Error, "what is wrong, in words"},
		{Remedy, "what to do about it"},

		{Path, "where the device is on its host: its path, or its PCI address; of a request, its path"},
		{Bytes, "a number of bytes"},
		{Operation, "how the device is erased; of a request, its operation in the API's document"},
		{Method, "how a step did its work; of a request, its method"},
		{Seed, "the seed by which blocks were chosen"},
		{Note, "what else a step reports"},
		{Duration, "a duration; in JSON in nanoseconds"},
		{Offset, "how many bytes of the device a step had done"},
		{Attempt, "the attempt of an activity, from 1"},
		{Reprocessed, "how many bytes at most were processed again after crashes"},

		{Event, "what happened to the device ([states](states.md))"},
		{State, "the device's state"},
		{Verb, "what was asked for: `bind`, `clean`, …"},
		{By, "who asked for it, as they say themselves without the API"},
		{Reason, "why"},
		{"requested", "the principal who requested an override"},
		{"approved", "the principal who approved it"},

		{Role, "the role of the worker that writes the line"},
		{Worker, "its name (`BURNISH_HOST`)"},
		{Version, "its version"},
		{"state_dir", "its state directory"},
		{Variable, "the name of an environment variable"},
		{Nearest, "the setting that is spelled most like it"},
		{File, "the path of a file"},
		{Drivers, "the drivers of the host"},
		{Paths, "`allow.paths` of `host.yaml`"},
		{Specs, "`allow.device_spec`"},
		{Scripts, "the names in `allow.scripts`"},
		{Nodes, "`allow.nodes`"},
		{Fake, "whether fake devices may be cleaned"},
		{Secrets, "the path of the file with the BMCs' passwords"},

		{Queue, "a task queue, or a queue of the message bus"},
		{Workflow, "the ID of a workflow"},
		{Run, "the ID of its run"},
		{Update, "the ID of the update that the workflow carries out"},
		{Activity, "the type of an activity"},
		{"signal", "the name of a signal"},

		{Request, "the ID of a request to the API"},
		{"principal", "the ID of its user"},
		{"project", "the user's project"},
		{"from", "the address that it came from"},
		{"status", "its HTTP status"},
		{"panic", "what a defect of Burnish reports"},
		{"stack", "where"},
		{"server", "which of the worker's HTTP servers"},
		{"address", "where it answers"},
		{"signed", "whether the metadata service asks for signatures"},

		{"name", "the name of something else than a device that is enrolled"},
		{"provider", "the UUID of a resource provider"},
		{"class", "a resource class"},
		{"trait", "a trait"},
		{"traits", "several traits"},
		{"cloud", "the cloud in clouds.yaml"},
		{"broker", "a message broker, without its password"},
		{"exchange", "its exchange"},
		{"routing_key", "the routing key of a message"},
		{"appliance", "an appliance of OneView"},
		{"start", "where a page of its list begins"},
		{"driver", "the driver of a device"},
		{"type", "its type"},
		{"model", "its model"},
		{"other", "another device"},
		{"what", "what was found"},
		{"part", "the part of the figures"},
		{"cause", "why something is waited for"},
		{"holder", "who holds a device's lock"},
		{"ended", "how a workflow ended"},
		{"since", "since when"},
		{"every", "the pause between two tries"},
		{"in", "the pause until the next try"},
		{"timeout", "how long something may take"},
	}
}
