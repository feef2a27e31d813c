//go:build !linux

package embedded

import "errors"

func trace(tracePlan) error { return errors.New("power losses can be tested on Linux only") }
