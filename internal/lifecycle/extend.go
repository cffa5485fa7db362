package lifecycle

import "burnish/workflows/contract"

// Extend has every device take one more verb until undo is called: check refuses it, and answer says what it
// does, which
// changes nothing. It shows that a verb is its entry in the table, and nothing else.
func Extend(asked contract.Verb, check func(*State, contract.ReasonInput) error,
	answer func(contract.ReasonInput) string) (undo func()) {
	before := verbs
	verbs = append(verbs[:len(verbs):len(verbs)], on(asked, check,
		func(d *State, j *Job, in contract.ReasonInput) {
			d.done(j, contract.Result{Device: d.Status(), Note: answer(in)}, nil)
		}))
	return func() { verbs = before }
}

// Tenant is the instance that has the device by the workflow's own state, "" if none has.
func (d *State) Tenant() string { return d.tenant() }

// Refuse makes the refusal of a request.
func (d *State) Refuse(f contract.Refusal) error {
	return d.refuse(f.Fault.Code, f.Fault.Message, f.Fault.Remedy)
}
