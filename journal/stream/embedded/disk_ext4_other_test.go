//go:build !linux

package embedded

import "testing"

type ext4 struct{ dir string }

// newExt4 is for Linux only.
func newExt4(t *testing.T, _ int64) (*ext4, bool) {
	t.Log("no file system can be made here, so this is only tried without")
	return nil, false
}

func (*ext4) remount(*testing.T, string)           {}
func (*ext4) cycle(*testing.T)                     {}
func (*ext4) powerOff(*testing.T)                  {}
func (*ext4) fill(*testing.T, int64) (free func()) { return func() {} }
