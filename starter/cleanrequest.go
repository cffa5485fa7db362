package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"burnish/workflows/contract"
)

// cleanRequest is what the flags of clean and validate ask for.
type cleanRequest struct {
	steps   []string
	args    []string
	runbook string
}

func (c *cleanRequest) flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.steps, "steps", nil, "`A[,B…]`: these steps alone")
	flags.StringArrayVar(&c.args, "arg", nil, "`[STEP.]KEY=VALUE`: an argument of a step, as burnish steps lists them; "+
		"may be repeated. With several steps the step's name comes first")
	flags.StringVar(&c.runbook, "runbook", "", "`R`: the steps of this runbook of the policy")
}

// input makes the request of the flags.
func (c *cleanRequest) input(flags *pflag.FlagSet) (contract.CleanInput, error) {
	in := contract.CleanInput{Runbook: strings.TrimSpace(c.runbook)}
	if flags.Changed("steps") && len(c.steps) == 0 {
		return in, usagef("--steps is empty")
	}
	for _, step := range c.steps {
		if step = strings.TrimSpace(step); step == "" {
			return in, usagef("--steps holds an empty name")
		}
		in.Steps = append(in.Steps, step)
	}
	switch {
	case flags.Changed("runbook") && in.Runbook == "":
		return in, usagef("--runbook is empty")
	case in.Runbook != "" && flags.Changed("steps"):
		return in, usagef("--runbook and --steps exclude each other: a runbook has its own steps")
	case in.Runbook != "" && len(c.args) > 0:
		return in, usagef("--runbook and --arg exclude each other: a runbook has its own arguments")
	case len(c.args) > 0 && len(in.Steps) == 0:
		return in, usagef("--arg goes with --steps")
	}
	args := map[string]map[string]any{}
	for _, arg := range c.args {
		key, text, ok := strings.Cut(arg, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return in, usagef("--arg %q: must be of the form KEY=VALUE", arg)
		}
		step := in.Steps[0]
		if before, after, ok := strings.Cut(key, "."); ok && slices.Contains(in.Steps, before) {
			step, key = before, after
		} else if len(in.Steps) > 1 {
			return in, usagef("--arg %q: with several steps it must be of the form STEP.KEY=VALUE", arg)
		}
		if key == "" {
			return in, usagef("--arg %q: must be of the form KEY=VALUE", arg)
		}
		if _, twice := args[step][key]; twice {
			return in, usagef("--arg %s is given twice", key)
		}
		if args[step] == nil {
			args[step] = map[string]any{}
		}
		args[step][key] = typed(text)
	}
	for step, values := range args {
		text, err := json.Marshal(values)
		if err != nil {
			return in, usagef("--arg: %s", err)
		}
		if in.Args == nil {
			in.Args = map[string]json.RawMessage{}
		}
		in.Args[step] = text
	}
	return in, nil
}

// typed gives a value as JSON has it: true, false, a number, an object, a list or text in
// quotes. All else is text.
func typed(text string) any {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() || value == nil {
		return text
	}
	return value
}

// argsText is the arguments of a planned step on one line.
func argsText(args json.RawMessage) string {
	var b bytes.Buffer
	if len(args) == 0 || json.Compact(&b, args) != nil {
		return string(args)
	}
	return b.String()
}
