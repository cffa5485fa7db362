package activities

import (
	"encoding/json"

	"burnish/internal/device"
	"burnish/internal/proof"
	"burnish/workflows/contract"
	"burnish/workflows/planning"
)

// SignFound is the host's own statement of what it found, which a clean is planned by.
func SignFound(key proof.HostKey, host string, in contract.DiscoverInput,
	found contract.DiscoveryResult) (string, error) {
	return sign(key, proof.Found{Subject: planning.Subject(in.Enrollment, found),
		ClearAction: found.ClearAction, ClearStrategy: found.ClearStrategy},
		statement(host, in.Enrollment, found.Identity, in.Reservation, proof.Discovery))
}

// SignStep is the host's own statement that it carried out a step as it was asked to, with its result.
func SignStep(key proof.HostKey, host string, in contract.StepInput, result contract.StepResult) (string, error) {
	of := statement(host, in.Enrollment, in.Identity, in.Reservation, in.Step)
	of.Clean, of.Version, of.Seq = in.Clean, in.Version, in.Seq
	of.Operation, of.Args, of.Obeys = in.Operation, in.Args, in.Settings
	return sign(key, result, of)
}

func statement(host string, e contract.Enrollment, i device.Identity, reservation, step string) proof.Statement {
	return proof.Statement{Host: host, Device: e.Name, Driver: e.Driver, Address: e.Address, Settings: e.Settings,
		Unit: i.Hardware(), Reservation: reservation, Step: step}
}

func sign(key proof.HostKey, result any, of proof.Statement) (string, error) {
	text, err := json.Marshal(result)
	if err != nil {
		return "", err
	}
	of.Result = text
	return key.Sign(of)
}
