package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// The verbs of a program. identify is not a step; the others are named as their steps.
const (
	identify        = "identify"
	eraseDevice     = "erase_device"
	verify          = "verify"
	firmwareReflash = "firmware_reflash"
	pciReset        = "pci_reset"
)

// programSteps are the steps that a program can support.
var programSteps = []string{eraseDevice, verify, firmwareReflash, pciReset}

// identifyReply is a program's answer to identify.
type identifyReply struct {
	Serial   string   `json:"serial"`
	Model    string   `json:"model"`
	Firmware string   `json:"firmware"`
	MAC      string   `json:"mac"`
	Size     int64    `json:"size"`
	Steps    []string `json:"steps"`
	Estimate string   `json:"estimate"`

	estimate time.Duration
}

// maxEstimate is the longest estimate that is accepted: 30 days.
const maxEstimate = 30 * 24 * time.Hour

// parseIdentifyReply reads the answer to identify. Serial, model and firmware must be short
// printable lines, because records and locks are named by them.
func parseIdentifyReply(line []byte) (identifyReply, error) {
	var s identifyReply
	if err := decodeStrict(line, &s); err != nil {
		return identifyReply{}, err
	}
	for _, text := range []struct {
		name, value string
		needed      bool
	}{{"serial", s.Serial, true}, {"model", s.Model, false}, {"firmware", s.Firmware, false}} {
		switch {
		case len(text.value) > 128 || strings.TrimSpace(text.value) != text.value ||
			strings.ContainsFunc(text.value, func(r rune) bool { return !unicode.IsPrint(r) }):
			return identifyReply{}, fmt.Errorf("its %s is not one short printable line: %q", text.name, text.value)
		case text.needed && hardware.CanonicalSerial(text.value) == "":
			return identifyReply{}, fmt.Errorf("its answer has no %s (%q), so the device cannot be distinguished from another",
				text.name, text.value)
		}
	}
	if s.MAC != "" {
		var err error
		if s.MAC, err = device.CanonicalMAC(s.MAC); err != nil {
			return identifyReply{}, fmt.Errorf("its %w", err)
		}
	}
	if s.Size < 0 {
		return identifyReply{}, fmt.Errorf("its size is %d", s.Size)
	}
	for i, step := range s.Steps {
		switch {
		case !slices.Contains(programSteps, step):
			return identifyReply{},
				fmt.Errorf("it offers the step %q: must be one of %s", step, strings.Join(programSteps, ", "))
		case slices.Contains(s.Steps[:i], step):
			return identifyReply{}, fmt.Errorf("it offers %s twice", step)
		}
	}
	if s.Estimate != "" {
		var err error
		if s.estimate, err = time.ParseDuration(s.Estimate); err != nil || s.estimate < 0 || s.estimate > maxEstimate {
			return identifyReply{}, fmt.Errorf("its estimate %q is not a valid duration: want one such as 10m, at most %s",
				s.Estimate, maxEstimate)
		}
	}
	// Required: if the program left them out by mistake, nothing could erase its device,
	// and the device could be returned as it is (D4).
	for _, step := range []string{eraseDevice, verify} {
		if !slices.Contains(s.Steps, step) {
			return identifyReply{}, fmt.Errorf("it does not offer %s", step)
		}
	}
	return s, nil
}

// parseStepReply reads the answer to any other verb. Only "done": true is success.
func parseStepReply(line []byte) (note string, err error) {
	var answer struct {
		Done bool   `json:"done"`
		Note string `json:"note"`
	}
	if err := decodeStrict(line, &answer); err != nil {
		return "", err
	}
	if !answer.Done {
		return "", errors.New("its answer does not have \"done\": true")
	}
	return hardware.OneLine(answer.Note), nil
}

// decodeStrict reads one JSON object without unknown fields.
func decodeStrict(line []byte, into any) error {
	if len(line) == 0 || line[0] != '{' {
		return fmt.Errorf("its last line is not a JSON object: %q", hardware.OneLine(string(line)))
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("its last line has more than one JSON object: %q", hardware.OneLine(string(line)))
	}
	return nil
}

// badAnswer is the fault of a program that succeeded with an invalid answer.
func (c *pciDevice) badAnswer(verb string, err error) error {
	return hardware.Refused(device.CodeToolOutputInvalid, "correct the script", "script %s, %s: %v", c.script, verb, err)
}
