package steps

import (
	"context"
	"errors"
	"fmt"
)

// recordBehind calls do with a checkpoint that returns while its resume point is still being
// written: the journal's fsync takes as long as a chunk of a fast drive, and the drive works
// on the next chunk meanwhile (F2). The next checkpoint waits for that record first, so that
// at most MaxRepeated bytes are ahead of the last resume point on stable storage. The caller
// flushes the device before each checkpoint: a resume point never names bytes of a flush that
// has not ended.
//
// A record that fails ends do's context, and its error is recordBehind's. When recordBehind
// returns, no record is under way.
func recordBehind(ctx context.Context, w *Work,
	do func(ctx context.Context, checkpoint func(offset int64) error) error) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	var underWay chan error // the last record's; nil: it has ended
	wait := func() error {
		if underWay == nil {
			return nil
		}
		failed := <-underWay
		underWay = nil
		return failed
	}
	defer func() { // also when do panics
		failed := wait()
		fail(nil)
		// An error of do's own says more, unless it is only that its context has ended.
		if failed != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, failed)) {
			err = failed
		}
	}()
	return do(ctx, func(offset int64) error {
		if err := wait(); err != nil {
			return err
		}
		ended := make(chan error, 1)
		underWay = ended
		go func() {
			err := record(w, offset)
			if err != nil {
				fail(err)
			}
			ended <- err
		}()
		return w.mayGoOn()
	})
}

// record is w.Record; a panic in it becomes its error, as it does in the step's goroutine.
func record(w *Work, offset int64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the record of the resume point %d panicked: %v", offset, p)
		}
	}()
	return w.Record(offset)
}
