package explorer

// This file is the loss of a workflow task after a call of the inventory in it: what the call
// wrote stays, and the workflow knows nothing of it. What the task handled comes again,
// perhaps after something else, and so may a request that a client has to send again.

// lost is a move whose task is lost after the call that the move makes the workflow begin.
func lost(m move) move {
	return move{m.name + ", and the task is lost after its call of the inventory", func(t turn) bool {
		if t.w.faults == 0 || !t.w.wf.exists || !t.without.losesTasks() {
			return false
		}
		before, after := *t.w, *t.w
		then := turn{t.explorer, &after}
		happened := m.do(then)
		if happened {
			then.settle()
		}
		if t.broke != "" { // the move itself shows it
			t.explorer.broke = ""
			return false
		}
		c, began := begunInTask(before.wf, after.wf)
		if !happened || !began || after.faults == 0 {
			return false
		}
		then.carryOut(c)
		w := before
		w.inv, w.attended, w.faults = after.inv, after.attended, after.faults-1
		w.held = before.held && after.held // who lets it go has done so, answered or not
		for n := range w.tenants {         // who asks to unbind has left, answered or not
			w.tenants[n].has = before.tenants[n].has && after.tenants[n].has
		}
		if before.wf.main.kind == cleanStep && after.wf.main != before.wf.main {
			w.host, w.bytes, w.aged, w.wf.stepDone = after.host, after.bytes, after.aged, true
		}
		*t.w = w
		return true
	}}
}

// begunInTask is the call that the workflow began in its task.
func begunInTask(before, after workflow) (call, bool) {
	switch {
	case after.main.inTask && after.main.attempt == 1 && after.main != before.main && !after.main.looks():
		return after.main, true
	case after.upd.inTask && after.upd.attempt == 1 && after.upd != before.upd:
		return after.upd, !after.queued
	}
	return call{}, false
}
