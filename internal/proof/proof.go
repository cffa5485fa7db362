// Package proof is what a control worker asks for before it offers a device to tenants: that a host which the
// operator knows carried out a clean, since this very reservation of the device. It guards against those who can
// invent any message between workers, because they have a credential of the Temporal namespace.
//
// Three things make a proof. A receipt, which a control worker gives for each reservation that it makes; nobody else
// can make one, or know its number before. A statement of each step, which the host signs with its own key, under the
// receipt's number. And the operator's file of hosts' keys, which says whose statement counts for which device.
package proof

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"burnish/internal/device"
)

// Receipts gives receipts of reservations and knows its own. All control workers of a namespace have the same key.
type Receipts struct{ key []byte }

// NewReceipts uses the secret of the control workers.
func NewReceipts(secret []byte) Receipts { return Receipts{secret} }

// receipt is what the text of one says: NUMBER.FREE.GENERATION.SIGNATURE (contract.DeviceState.Reservation).
type receipt struct {
	number     string
	free       bool // the reservation took a free device out of the offer
	generation int64
}

const freed = "free"

// Give is the receipt of a reservation: id is the provider of the device of this name, before and now are what the
// write found and made of it. It continues the last receipt, if the device has been reserved all the time since: then
// what was proved under that one's number holds. A device that somebody uses or is recorded to have gets none.
func (r Receipts) Give(name, id string, before, now device.Inventory, last string) string {
	if now.Used > 0 || now.Witness == device.WitnessBound {
		return ""
	}
	kept, ok := r.open(name, id, last)
	if !ok || kept.generation != before.Generation || !before.Burned() {
		offered := before.Total > 0 && before.Reserved == 0 && before.Used == 0 && before.Witness != device.WitnessBound
		kept = receipt{number: rand.Text(), free: offered}
	}
	kept.generation = now.Generation
	return r.sign(name, id, kept)
}

// sign quotes what it signs: a name may have anything in it.
func (r Receipts) sign(name, id string, of receipt) string {
	text := of.number + "."
	if of.free {
		text += freed
	}
	text += "." + strconv.FormatInt(of.generation, 10)
	mac := hmac.New(sha256.New, r.key)
	fmt.Fprintf(mac, "reservation 1 %q %q %q", name, id, text)
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// open reads a receipt of the device's provider.
func (r Receipts) open(name, id, text string) (receipt, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] == "" {
		return receipt{}, false
	}
	generation, err := strconv.ParseInt(parts[2], 10, 64)
	of := receipt{number: parts[0], free: parts[1] == freed, generation: generation}
	return of, err == nil && hmac.Equal([]byte(text), []byte(r.sign(name, id, of)))
}
