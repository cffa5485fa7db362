package oneviewsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"burnish/internal/testkit/simserver"
)

// BMC is another way into a server: a power change by either shows in both. A
// redfishsim.Machine is one, and so is a redfishsim.Process.
type BMC interface {
	// Power is On, Off, PoweringOn or PoweringOff.
	Power() (string, error)
	// SetPower begins a change, in Redfish's terms: On, ForceOff, GracefulShutdown,
	// ForceRestart.
	SetPower(resetType string) error
}

// Join makes a server and its BMC one. Of an appliance in another process, see Process.Join.
func (a *Appliance) Join(server string, bmc BMC) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, err := a.find(server)
	if err == nil {
		a.bmcs[h.URI()] = bmc
		a.refresh(h)
	}
	return err
}

// refresh is the server's power as its BMC shows it, where there is one.
func (a *Appliance) refresh(h *Hardware) {
	bmc := a.bmcs[h.URI()]
	if bmc == nil {
		return
	}
	power, err := bmc.Power()
	if err != nil {
		power = Unknown
	}
	if power != h.Power {
		h.Power = power
		a.touch(h)
	}
}

// resetTypes are Redfish's names of OneView's power controls.
func resetType(power, control string) string {
	switch {
	case power == Off && control == "PressAndHold":
		return "ForceOff"
	case power == Off:
		return "GracefulShutdown"
	case control == "MomentaryPress":
		return "On"
	default:
		return "ForceRestart"
	}
}

// remoteBMC is a BMC in another process.
type remoteBMC struct {
	url    string
	client *http.Client
}

func newRemoteBMC(link Link) (*remoteBMC, error) {
	client, err := simserver.Client([]byte(link.CA))
	return &remoteBMC{url: link.URL, client: client}, err
}

func (b *remoteBMC) Power() (string, error) {
	var power string
	return power, b.do(http.MethodGet, nil, &power)
}

func (b *remoteBMC) SetPower(resetType string) error {
	return b.do(http.MethodPut, resetType, nil)
}

func (b *remoteBMC) do(method string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, b.url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	response, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, b.url, response.Status, answer)
	case into == nil:
		return nil
	default:
		return json.Unmarshal(answer, into)
	}
}
