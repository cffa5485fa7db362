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
	"encoding/binary"
	"strings"

	"burnish/internal/device"
)

// Receipts gives receipts of reservations and knows its own. All control workers of a namespace have the same key.
type Receipts struct{ key []byte }

// NewReceipts uses the secret of the control workers.
func NewReceipts(secret []byte) Receipts { return Receipts{secret} }

// receipt is what the text of one says: NUMBER.FREE.SIGNATURE (contract.DeviceState.Reservation).
type receipt struct {
	number string
	free   bool // the reservation took a free device out of the offer
}

const freed = "free"

// Give is the receipt of a reservation: id is the provider of the device of this name, before and now are what the
// write found and made of it. It continues the last receipt, if the device has been reserved all the time since: then
// what was proved under that one's number holds. A device that somebody uses or is recorded to have gets none.
func (r Receipts) Give(name, id string, before, now device.Inventory, last string) string {
	if now.Used > 0 || now.Witness == device.WitnessBound {
		return ""
	}
	kept, ok := r.open(name, id, before.Generation, last)
	if !ok || !before.Burned() {
		offered := before.Total > 0 && before.Reserved == 0 && before.Used == 0 && before.Witness != device.WitnessBound
		kept = receipt{number: rand.Text(), free: offered}
	}
	return r.sign(name, id, now.Generation, kept)
}

func (r Receipts) sign(name, id string, generation int64, of receipt) string {
	text := of.number + "."
	if of.free {
		text += freed
	}
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte("burnish reservation 1\n" + name + "\n" + id + "\n" + text + "\n"))
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(generation)))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// open reads a receipt of the device's provider at this generation.
func (r Receipts) open(name, id string, generation int64, text string) (receipt, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] == "" {
		return receipt{}, false
	}
	of := receipt{number: parts[0], free: parts[1] == freed}
	return of, hmac.Equal([]byte(text), []byte(r.sign(name, id, generation, of)))
}
