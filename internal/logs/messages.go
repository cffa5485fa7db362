package logs

// The messages of the trail. Programs may look for them: they change as rarely as a field of
// JSON does. docs/logs.md says what each promises, and which keys it has.
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
