package main

import (
	"fmt"

	"burnish/internal/device"
)

// labelsOf reads the labels of a device that is enrolled.
func labelsOf(texts []string) (map[string]string, error) {
	change, err := device.ParseLabelChange(texts)
	if err == nil && len(change.Remove) > 0 {
		err = fmt.Errorf("%s-: a device that is enrolled has no label to remove; give KEY=VALUE", change.Remove[0])
	}
	if err != nil || len(change.Set) == 0 {
		return nil, err
	}
	return change.Set, nil
}
