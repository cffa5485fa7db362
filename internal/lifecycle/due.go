package lifecycle

import (
	"fmt"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file is the third table: what must be under way. A job is in one phase, and the phase's row says what is due
// while it is: a call, a condition that must hold, or a moment that must come. A call that is no longer due is
// canceled; its end is an input like any other.

// Phase is what a job waits for.
type Phase string

// row is what is due in one phase.
type row struct {
	phase Phase
	// provider says whether the job has the provider for itself meanwhile.
	provider provision
	// begin makes the call that is due, or sets the moment at which the job ends to wait.
	begin func(*State, *Job)
	// until is the condition that ends the phase; nil: the end of its call, or a moment.
	until func(*State, *Job) bool
	// stops says that the call is no longer due; nil: it is due until it ends.
	stops func(*State, *Job) bool
	// then goes on.
	then func(*State, *Job, Outcome)
}

// provision is how a phase uses the provider in the inventory.
type provision uint8

const (
	free      provision = iota // the job gives it back
	forItself                  // no other job calls the inventory meanwhile
	asItIs                     // as in the phase before
)

// Due are the calls that must be under way now.
func (d *State) Due() []Call { return d.callsThat(true) }

// Undue are the calls that are no longer due: one that runs is canceled, and one that does not has ended.
func (d *State) Undue() []Call { return d.callsThat(false) }

func (d *State) callsThat(due bool) (all []Call) {
	for _, j := range d.Jobs {
		if j.Call == nil || j.Ended {
			continue
		}
		if stops := rowOf(j.Phase).stops; due == (stops == nil || !stops(d, j)) {
			all = append(all, *j.Call)
		}
	}
	return all
}

// NotMade is the outcome of a call that was not made.
func NotMade() Outcome {
	return Outcome{Fault: &device.Fault{Class: device.NeedsOperator, Code: device.CodeAborted, Message: "canceled"}}
}

// calls says that a call of one of the activities is under way, be it still due or not.
func (d *State) calls(activities ...string) bool {
	for _, j := range d.Jobs {
		for _, activity := range activities {
			if j.Call != nil && j.Call.Activity == activity {
				return true
			}
		}
	}
	return false
}

// The phases, in the order of a device's life. Their names are what a trace of the device shows.
const (
	phRecordAsked Phase = "the record is asked before a refusal"

	phEnroll         Phase = "enroll"
	phEnrollDiscover Phase = "enroll: its host discovers it"
	phEnrollUnique   Phase = "enroll: nobody else has the hardware"
	phEnrollProvider Phase = "enroll: its provider exists and is reserved"
	phEnrollPrevious Phase = "enroll: an earlier run of its workflow is searched for"
	phEnrollProvided Phase = "enroll: it is provided"
	phImportRead     Phase = "import: its provider is read"
	phImportPrevious Phase = "import: an earlier run of its workflow is searched for"

	phClaimLooked      Phase = "claim: its host has looked"
	phUnclaimConfirmed Phase = "unclaim: the record was read"
	phBindServer       Phase = "bind: who has its server"
	phBindLook         Phase = "bind: its host looks"
	phBindSettles      Phase = "bind: no change of the hardware is open"
	phBurnLooked       Phase = "bind: its host has looked"
	phBurnRecorded     Phase = "burn: it is in the history"
	phBurn             Phase = "burn: it is reserved for the instance"
	phBurnProfiled     Phase = "burn: its server has its profile"
	phBurnConclude     Phase = "burn: it is concluded"
	phBurnKnown        Phase = "burn: who has the device is known"
	phJoinBurn         Phase = "bind: the same request's burn is over"
	phJoined           Phase = "bind: the same request's burn is known"
	phUnlessBound      Phase = "bind: the record was read before a refusal"
	phServerOfBinding  Phase = "who has the server of a binding that was read"
	phGrantAgain       Phase = "bind: the record confirms it"
	phUnbindAsks       Phase = "unbind: no bind asks the host"
	phUnbindConfirmed  Phase = "unbind: the record was read"
	phUnbindBurns      Phase = "unbind: the burn is over"
	phUnbindKnown      Phase = "unbind: the record confirms that it has left"
	phRebuildConfirmed Phase = "rebuild: the record confirms whose it is"
	phConfirm          Phase = "the record is read"
	phAwaitKnown       Phase = "who has the device is known"

	phResolve       Phase = "unknown: the provider is read and reserved"
	phPrevious      Phase = "unknown: an earlier run of its workflow is searched for"
	phPreviousPause Phase = "unknown: a pause before the search is repeated"
	phConfirmSerial Phase = "its serial is nobody else's"
	phReconcile     Phase = "it is compared with its provider"
	phAskPool       Phase = "who has its server"
	phPoolLeft      Phase = "it has left the offer for another user of its pool"
	phAskInstance   Phase = "its instance is asked whether it has it"
	phRediscover    Phase = "its host looks"
	phLook          Phase = "its host looks before it is offered"
	phLookUnique    Phase = "nobody else has its hardware, before it is offered"
	phProfileTurn   Phase = "no other call changes its server"
	phProfile       Phase = "its server's profile is changed"
	phForgetOnHost  Phase = "its host forgets it"
	phForgetLater   Phase = "its name is left for its host"
	phRefused       Phase = "refused, and forgotten by its host"
	phNameRecorded  Phase = "the record is read for an instance that must be named"
	phWithdrawNamed Phase = "the instance is named"
	phLeave         Phase = "it is to leave the offer"
	phLeaveAlone    Phase = "it leaves the offer: its provider is read"
	phLeaveReserve  Phase = "it leaves the offer: its provider is reserved"
	phSlotAsk       Phase = "a slot is asked for"
	phSlotStart     Phase = "a slot is asked for, and the workflow of the limits started"
	phSlotWait      Phase = "a slot is granted"

	phCleanReserve    Phase = "clean: its provider is reserved"
	phCleanDiscover   Phase = "clean: its host discovers it"
	phCleanDiscovered Phase = "clean: its host has discovered it"
	phCleanRecords    Phase = "clean: nobody else has its hardware"
	phCleanSlot       Phase = "clean: it has its slot"
	phStepHeld        Phase = "clean: the step is not held back"
	phPrepare         Phase = "clean: who has its server"
	phPrepared        Phase = "clean: its server has a profile"
	phStep            Phase = "clean: the step runs"
	phReplan          Phase = "clean: it is planned again"
	phHold            Phase = "clean: its operator releases it"
	phWait            Phase = "clean: its runbook's pause is over"
	phTogether        Phase = "clean: its group is together"
	phCleanReleased   Phase = "clean: its server has no profile"

	phReturnUnprofiled      Phase = "return: its server has no profile"
	phReturn                Phase = "return"
	phReturnLooked          Phase = "return: its host has looked"
	phReturnReserve         Phase = "return: its provider is reserved and read"
	phReturned              Phase = "return: its reservation was lowered"
	phLowerLooked           Phase = "its reservation is to be lowered: its host has looked"
	phLower                 Phase = "its reservation is lowered"
	phLowerRead             Phase = "its reservation is read after a write without an answer"
	phLowerPause            Phase = "a pause before its reservation is lowered again"
	phEndMaintenanceLooked  Phase = "maintenance ends: its host has looked"
	phEndMaintenance        Phase = "maintenance ends: its provider is reserved and read"
	phEndMaintenanceLowered Phase = "maintenance ends: its reservation was lowered"

	phAlreadyNamed      Phase = "manage or retire: it is so already, and the record was read"
	phProvideLooked     Phase = "provide: its host has looked"
	phProvided          Phase = "provide"
	phRetired           Phase = "retire"
	phRetiredUnprofiled Phase = "retire: its server has no profile"
	phForgetNamed       Phase = "forget: the instance is named"
	phForgetUnprofiled  Phase = "forget: its server has no profile"
	phForgetProvider    Phase = "forget: its provider is deleted"
	phForgotten         Phase = "forget"
	phCapacity          Phase = "manage: enough devices stay free"
	phManageGranted     Phase = "manage: it may be taken out of the offer"
	phManaged           Phase = "manage"
	phMaintained        Phase = "maintain"
	phMaintainServer    Phase = "maintenance ends: who has its server"
	phMaintenanceEnded  Phase = "maintenance has ended"
	phPowerConfirmed    Phase = "power: the record was read"
	phPowerServer       Phase = "power: who has its server"
	phPower             Phase = "power: it is changed"
	phPowerTag          Phase = "power: how the appliance shows its server"
	phPowerRead         Phase = "power: it is read after a reset without an answer"
	phMigrateRead       Phase = "migrate-pool: its profile is read"
	phMigrateLeft       Phase = "migrate-pool: it has left the offer"
	phMigrateProvided   Phase = "migrate-pool: it is provided"
	phMigrateReturns    Phase = "migrate-pool: it is returned"
	phReplaceNamed      Phase = "replace: the instance is named"
	phReplaceDiscover   Phase = "replace: its host discovers the hardware"
	phReplaceUnique     Phase = "replace: nobody else has the hardware"
	phReplaceProvider   Phase = "replace: its provider records the hardware"
	phMoveNamed         Phase = "move: the instance is named"
	phMoveDiscover      Phase = "move: the host of the slot discovers the hardware"
	phMoveUnprofiled    Phase = "move: its server has no profile"
	phMoveStart         Phase = "move: its workflow starts under the new name"
	phMoveProvider      Phase = "move: the provider of the old slot is deleted"
	phMoveForgotten     Phase = "move: the host of the old slot forgets it"
)

var rows map[Phase]*row

func rowOf(p Phase) *row { return rows[p] }

// Markdown gives the table for people, in its own order.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| while | it has the provider for itself | it ends with | and is no longer due when |\n" +
		"|---|---|---|---|\n")
	for _, p := range order {
		r := rowOf(p)
		alone := map[provision]string{free: "", forItself: "yes", asItIs: "as before"}[r.provider]
		ends, stops := "what it began with", ""
		switch {
		case r.until != nil:
			ends = "its condition"
		case r.begin != nil && r.then != nil:
			ends = "the end of its call, or its moment"
		case r.begin != nil:
			ends = "at once"
		}
		if r.stops != nil {
			stops = "its job must stop"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p, alone, ends, stops)
	}
	return b.String()
}

var order []Phase

func init() {
	table := []row{
		{phase: phRecordAsked, provider: asItIs, then: (*State).recordAsked},

		{phase: phEnroll, provider: forItself, begin: (*State).enrollBegins},
		{phase: phEnrollDiscover, provider: forItself, begin: (*State).enrollDiscover, then: (*State).enrollDiscovered},
		{phase: phEnrollUnique, provider: forItself, begin: (*State).lookForOthers, then: (*State).enrollUnique},
		{phase: phEnrollProvider, provider: forItself, begin: (*State).enrollProvider, then: (*State).enrollReserved},
		{phase: phEnrollPrevious, provider: forItself, begin: (*State).previousCall, then: (*State).enrollKnown},
		{phase: phEnrollProvided, provider: asItIs, then: (*State).enrollProvided},
		{phase: phImportRead, provider: forItself, begin: (*State).importRead, then: (*State).importFound},
		{phase: phImportPrevious, provider: forItself, begin: (*State).previousCall, then: (*State).imported},

		{phase: phClaimLooked, then: (*State).claimLooked},
		{phase: phUnclaimConfirmed, then: (*State).unclaimConfirmed},
		{phase: phBindServer, begin: (*State).readPoolForClient, then: (*State).bindServerRead},
		{phase: phBindLook, begin: (*State).bindLook, then: (*State).lookedBeforeBind},
		{phase: phBindSettles, until: (*State).bindSettled, then: (*State).bindSettledThen},
		{phase: phBurnLooked, then: (*State).burnLooked},
		{phase: phBurnRecorded, begin: (*State).burnRecorded, then: (*State).burnGoesOn},
		{phase: phBurn, provider: forItself, begin: (*State).burnCall, then: (*State).burned},
		{phase: phBurnProfiled, then: (*State).burnProfiled},
		{phase: phBurnConclude, provider: forItself, begin: (*State).burnConcludes},
		{phase: phBurnKnown, then: (*State).burnKnown},
		{phase: phJoinBurn, until: (*State).joinBurnOver, then: (*State).joinBurn},
		{phase: phJoined, then: (*State).joined},
		{phase: phUnlessBound, then: (*State).boundAfterAll},
		{phase: phServerOfBinding, begin: (*State).readPoolForClient, then: (*State).serverOfBinding},
		{phase: phGrantAgain, then: (*State).grantedAgain},
		{phase: phUnbindAsks, until: (*State).unbindAsked, then: (*State).unbindClaimed},
		{phase: phUnbindConfirmed, then: (*State).unbindConfirmed},
		{phase: phUnbindBurns, until: (*State).unbindBurned, then: (*State).unbindAfterBurn},
		{phase: phUnbindKnown, then: (*State).unbindKnown},
		{phase: phRebuildConfirmed, then: (*State).rebuildConfirmed},
		{phase: phConfirm, provider: forItself, begin: (*State).confirmCall, then: (*State).confirmed},
		{phase: phAwaitKnown, begin: (*State).awaitKnown, until: (*State).isKnown, then: (*State).nowKnown},

		{phase: phResolve, provider: forItself, begin: (*State).resolve, then: (*State).resolved},
		{phase: phPrevious, provider: forItself, begin: (*State).findPrevious, then: (*State).foundPrevious},
		{phase: phPreviousPause, provider: forItself, begin: (*State).pausePrevious, then: (*State).previousAgain},
		{phase: phConfirmSerial, begin: (*State).confirmSerial, then: (*State).serialConfirmed},
		{phase: phReconcile, provider: forItself, begin: (*State).reconcileCall, then: (*State).reconciled},
		{phase: phAskPool, begin: (*State).readPoolForClient, then: (*State).poolAsked},
		{phase: phPoolLeft, then: (*State).poolLeft},
		{phase: phAskInstance, begin: (*State).askInstance, then: (*State).instanceAnswered},
		{phase: phRediscover, begin: func(d *State, j *Job) { d.discover(j, whileClientWaits()) },
			then: (*State).rediscovered},
		{phase: phLook, provider: asItIs, begin: (*State).look, then: (*State).lookedFirst},
		{phase: phLookUnique, provider: asItIs, begin: (*State).lookForOthers, then: (*State).lookedForOthers},
		{phase: phProfileTurn, provider: asItIs, then: (*State).profileTurned,
			until: func(d *State, j *Job) bool { return d.profileTurn(j) || j.Cleans && d.cleanStops(j) }},
		{phase: phProfile, provider: asItIs, begin: (*State).profileCall, then: (*State).profileDone,
			stops: func(d *State, j *Job) bool { return d.PoolStopped || j.Cleans && d.cleanStops(j) }},
		{phase: phForgetOnHost, provider: asItIs, begin: (*State).forgetCall, then: (*State).forgotten},
		{phase: phForgetLater, provider: asItIs, begin: (*State).forgetLater, then: (*State).back},
		{phase: phRefused, then: (*State).refusedForgotten},
		{phase: phNameRecorded, provider: forItself, begin: (*State).nameRecordedCall, then: (*State).recordedNamed},
		{phase: phWithdrawNamed, provider: asItIs, then: (*State).withdrawNamed},
		{phase: phLeave, begin: (*State).leaveBegins},
		{phase: phLeaveAlone, provider: forItself, begin: (*State).leaveAlone, then: (*State).leaveRead},
		{phase: phLeaveReserve, provider: forItself, begin: (*State).leaveReserveCall, then: (*State).leaveReserved},
		{phase: phSlotAsk, begin: (*State).slotAsk, then: (*State).slotAsked},
		{phase: phSlotStart, begin: (*State).slotStart, then: (*State).slotWaits, stops: (*State).slotUnwanted},
		{phase: phSlotWait, begin: (*State).slotWait, until: (*State).slotOver, then: (*State).slotWaited},

		{phase: phCleanReserve, provider: forItself, begin: (*State).cleanReserveCall, then: (*State).cleanReserved,
			stops: (*State).cleanStops},
		{phase: phCleanDiscover, begin: (*State).cleanDiscoverCall, then: (*State).cleanDiscoverEnded,
			stops: (*State).cleanStops},
		{phase: phCleanDiscovered, then: (*State).cleanDiscovered},
		{phase: phCleanRecords, begin: (*State).cleanRecordsCall, then: (*State).cleanChecked, stops: (*State).cleanStops},
		{phase: phCleanSlot, then: (*State).cleanSlot},
		{phase: phStepHeld, begin: (*State).stepHeld, until: (*State).stepReleased, then: (*State).stepGoesOn},
		{phase: phPrepare, begin: func(d *State, j *Job) { d.readPool(j, 0) }, then: (*State).serverRead,
			stops: (*State).cleanStops},
		{phase: phPrepared, then: (*State).serverPrepared},
		{phase: phStep, begin: (*State).step, then: (*State).stepEnded, stops: (*State).cleanStops},
		{phase: phReplan, then: (*State).replan},
		{phase: phHold, begin: (*State).hold, until: (*State).holdOver, then: (*State).released},
		{phase: phWait, begin: (*State).wait, until: (*State).cleanStops, then: (*State).waited},
		{phase: phTogether, begin: (*State).together, until: (*State).togetherOver, then: (*State).wentTogether},
		{phase: phCleanReleased, then: (*State).cleanReleased},

		{phase: phReturnUnprofiled, then: (*State).returnUnprofiled},
		{phase: phReturn, provider: forItself, begin: (*State).returnBegins},
		{phase: phReturnLooked, provider: asItIs, then: (*State).returnLooked},
		{phase: phReturnReserve, provider: forItself, begin: (*State).returnReserveCall, then: (*State).returnReserved},
		{phase: phReturned, provider: asItIs, then: (*State).returned},
		{phase: phLowerLooked, provider: asItIs, then: (*State).lowerLooked},
		{phase: phLower, provider: forItself, begin: (*State).lowerCall, then: (*State).lowered},
		{phase: phLowerRead, provider: forItself, begin: (*State).lowerReadCall, then: (*State).lowerRead},
		{phase: phLowerPause, provider: forItself, begin: (*State).lowerPause, then: (*State).lowerAgain},
		{phase: phEndMaintenanceLooked, then: (*State).endMaintenanceLooked},
		{phase: phEndMaintenance, provider: forItself, begin: (*State).endMaintenanceCall,
			then: (*State).endMaintenanceReserved},
		{phase: phEndMaintenanceLowered, provider: asItIs, then: (*State).endMaintenanceLowered},

		{phase: phAlreadyNamed, provider: asItIs, then: named((*State).stillHeld)},
		{phase: phProvideLooked, provider: asItIs, then: (*State).providing},
		{phase: phProvided, then: (*State).provided},
		{phase: phRetired, then: (*State).retired},
		{phase: phRetiredUnprofiled, then: (*State).retiredUnprofiled},
		{phase: phForgetNamed, provider: asItIs, then: named((*State).forgetNamed)},
		{phase: phForgetUnprofiled, provider: asItIs, then: (*State).forgetUnprofiled},
		{phase: phForgetProvider, provider: forItself, begin: (*State).deleteProvider, then: (*State).forgetDeleted},
		{phase: phForgotten, provider: asItIs, then: (*State).forgotDevice},
		{phase: phCapacity, then: (*State).capacityGranted},
		{phase: phManageGranted, then: (*State).manageGranted},
		{phase: phManaged, then: (*State).managed},
		{phase: phMaintained, then: (*State).maintained},
		{phase: phMaintainServer, begin: (*State).readPoolForClient, then: (*State).maintainServerRead},
		{phase: phMaintenanceEnded, then: (*State).maintenanceEnds},
		{phase: phPowerConfirmed, then: (*State).powerConfirmed},
		{phase: phPowerServer, begin: (*State).readPoolForClient, then: (*State).powerServerRead},
		{phase: phPower, begin: (*State).powerCall, then: (*State).powered},
		{phase: phPowerTag, begin: (*State).readPoolForClient, then: (*State).powerTagRead},
		{phase: phPowerRead, begin: (*State).powerCall, then: (*State).powerRead},
		{phase: phMigrateRead, begin: (*State).readPoolForClient, then: (*State).migrateRead},
		{phase: phMigrateLeft, then: (*State).migrated},
		{phase: phMigrateProvided, then: (*State).migrateProvided},
		{phase: phMigrateReturns, until: (*State).migrateReturned, then: (*State).migrationEnds},
		{phase: phReplaceNamed, provider: asItIs, then: named((*State).replaceLooks)},
		{phase: phReplaceDiscover, provider: forItself, begin: (*State).replaceDiscover, then: (*State).replaceDiscovered},
		{phase: phReplaceUnique, provider: forItself, begin: (*State).replaceOthers, then: (*State).replaceUnique},
		{phase: phReplaceProvider, provider: forItself, begin: (*State).replaceProvider, then: (*State).replaced},
		{phase: phMoveNamed, provider: asItIs, then: named((*State).moveLooks)},
		{phase: phMoveDiscover, provider: forItself, begin: (*State).moveDiscover, then: (*State).moveDiscovered},
		{phase: phMoveUnprofiled, provider: asItIs, then: (*State).moveUnprofiled},
		{phase: phMoveStart, provider: forItself, begin: (*State).moveStart, then: (*State).moveStarted},
		{phase: phMoveProvider, provider: forItself, begin: (*State).deleteProvider, then: (*State).moveDeleted},
		{phase: phMoveForgotten, provider: asItIs, then: (*State).moved},
	}
	rows = make(map[Phase]*row, len(table))
	for i := range table {
		rows[table[i].phase] = &table[i]
		order = append(order, table[i].phase)
	}
	verbs = []*verb{
		on(contract.VerbEnroll, (*State).checkEnroll, (*State).enroll),

		on(contract.VerbClaim, (*State).checkClaim, (*State).claim, repeated((*State).claimAgain)),
		on(contract.VerbBurn, (*State).checkBurn, (*State).burn, repeated((*State).grantAgain)),
		on(contract.VerbUnclaim, (*State).checkUnclaim, (*State).unclaim),
		on(contract.VerbBind, (*State).checkClaim, (*State).bind, repeated((*State).grantAgain)),
		on(contract.VerbUnbind, (*State).checkUnbind, (*State).unbind),
		on(contract.VerbRebuild, (*State).checkRebuild, (*State).rebuild, repeated((*State).rebuildAgain)),

		on(contract.VerbProvide, (*State).checkProvide, (*State).provideAsked, unless((*State).onItsWay, (*State).unchanged)),
		on(contract.VerbClean, (*State).checkClean, (*State).cleanAsked, arriving((*State).checkPlan)),
		on(contract.VerbAbort, (*State).checkAbort, (*State).abortAsked),
		on(contract.VerbReleaseHold, (*State).checkReleaseHold, (*State).releaseHoldAsked),
		on(contract.VerbManage, (*State).checkManage, (*State).manage, unless((*State).isManageable, (*State).alreadyHeld),
			repeated((*State).heldAgain)),
		on(contract.VerbMaintain, (*State).checkMaintain, (*State).maintain),
		on(contract.VerbLabel, (*State).checkLabel, (*State).label),
		on(contract.VerbRetire, (*State).checkRetire, (*State).retire, unless((*State).isRetired, (*State).alreadyHeld),
			repeated((*State).heldAgain)),
		on(contract.VerbForget, (*State).checkForget, (*State).forget),
		on(contract.VerbReplace, (*State).checkReplace, (*State).replace),
		on(contract.VerbMove, (*State).checkMove, (*State).move, arriving((*State).checkNewName)),

		on(contract.VerbPower, (*State).checkPower, (*State).power),
		on(contract.VerbOverride, (*State).checkOverride, (*State).override, arriving((*State).checkSignature)),
		on(contract.VerbImportHistory, (*State).checkImportHistory, (*State).importHistory),
		on(contract.VerbMigratePool, (*State).checkMigrate, (*State).migrate),
	}
}

var verbs []*verb

// Verbs are those that a device knows, in the order in which the SDK runs updates that came before they were
// registered. They are shared: nobody changes them.
func Verbs() (all []*contract.Verb) {
	for _, v := range verbs {
		all = append(all, &v.asked)
	}
	return all
}
