package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"burnish/internal/device"
)

// KeptBindingLog bounds the bytes that a BindingLog takes.
const KeptBindingLog = 832

// BindingLog says when the last bindings began and ended, by whom and why, within KeptBindings
// and KeptBindingLog. It is compressed JSON, as Archive is and for its reasons.
type BindingLog []byte

// bindingMoments are the moments of one binding.
type bindingMoments struct {
	Number int            `json:"n"`
	Began  *device.Moment `json:"began,omitempty"`
	Over   *device.Moment `json:"over,omitempty"`
}

// Began returns the log with the beginning of a binding.
func (l BindingLog) Began(number int, m device.Moment) (BindingLog, error) {
	return l.change(number, func(b *bindingMoments) { b.Began = &m })
}

// Over returns the log with the end of a binding.
func (l BindingLog) Over(number int, m device.Moment) (BindingLog, error) {
	return l.change(number, func(b *bindingMoments) { b.Over = &m })
}

// Of returns the bindings with what is known of their beginning and end.
func (l BindingLog) Of(bindings []device.Binding) ([]device.Binding, error) {
	all, err := l.moments()
	filled := slices.Clone(bindings)
	for i := range filled {
		b := &filled[i]
		if at := find(all, b.Number); at >= 0 {
			b.Began, b.Over = all[at].Began, all[at].Over
		}
	}
	return filled, err
}

func (l BindingLog) moments() ([]bindingMoments, error) {
	if len(l) == 0 {
		return nil, nil
	}
	var all []bindingMoments
	if err := Decompress(l, &all); err != nil {
		return nil, fmt.Errorf("read the log of bindings: %w", err)
	}
	return all, nil
}

func find(all []bindingMoments, number int) int {
	return slices.IndexFunc(all, func(b bindingMoments) bool { return b.Number == number })
}

// isOf says whether an entry is that of a binding: its number comes first.
func isOf(entry []byte, number int) bool {
	var begin [32]byte
	rest, ok := bytes.CutPrefix(entry, strconv.AppendInt(append(begin[:0], `{"n":`...), int64(number), 10))
	return ok && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}')
}

func (l BindingLog) change(number int, how func(*bindingMoments)) (BindingLog, error) {
	all, err := readList(l)
	if err != nil {
		return nil, fmt.Errorf("read the log of bindings: %w", err)
	}
	b, at := bindingMoments{Number: number}, len(all)
	if i := slices.IndexFunc(all, func(entry json.RawMessage) bool { return isOf(entry, number) }); i >= 0 {
		at = i
		if err := json.Unmarshal(all[i], &b); err != nil {
			return nil, fmt.Errorf("read the log of bindings: %w", err)
		}
	}
	how(&b)
	for _, m := range []*device.Moment{b.Began, b.Over} {
		if m != nil {
			m.Verb, m.By, m.Reason = cutTo(m.Verb, keptMomentReason), cutTo(m.By, keptName), cutTo(m.Reason, keptMomentReason)
		}
	}
	changed, err := listOf(b)
	if err != nil {
		return nil, err
	}
	return slices.Concat(all[:at], changed, all[min(at+1, len(all)):]).last(KeptBindings, math.MaxInt).compressed(KeptBindingLog)
}

// keptMomentReason bounds the verb and the reason of a moment, in bytes: the act has them too.
const keptMomentReason = 80
