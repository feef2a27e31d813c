package journaltest

import (
	"testing"

	"decisionjournal/journal"
)

func TestMemoryConforms(t *testing.T) {
	Conformance(t, func(*testing.T) journal.Log { return NewMemory() })
}

func TestFaultyWithoutFaultsConforms(t *testing.T) {
	Conformance(t, func(*testing.T) journal.Log { return &Faulty{Log: NewMemory()} })
}
