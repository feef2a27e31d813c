package main

import (
	"errors"
	"fmt"

	"decisionjournal/approver"
	"decisionjournal/journal"
)

// Exit codes.
const (
	exitOK         = 0
	exitFailed     = 1 // the journal could not be read or written
	exitMisuse     = 2
	exitSettled    = 4
	exitNoQuestion = 5
	exitRefused    = 6 // not entitled, or not offered
)

// misuseError is what a person has to type differently.
type misuseError struct{ text string }

func (e *misuseError) Error() string { return e.text }

func misuse(format string, args ...any) error {
	return &misuseError{fmt.Sprintf(format, args...)}
}

func exitCode(err error) int {
	var (
		typed      *misuseError
		ambiguous  *approver.AmbiguousError
		settled    *approver.SettledError
		notOffered *approver.NotOfferedError
	)
	switch {
	case errors.As(err, &typed), errors.As(err, &ambiguous):
		return exitMisuse
	case errors.As(err, &settled):
		return exitSettled
	case errors.Is(err, approver.ErrNoQuestion):
		return exitNoQuestion
	case errors.As(err, &notOffered), errors.Is(err, approver.ErrNotEntitled), errors.Is(err, journal.ErrRefused):
		return exitRefused
	}
	return exitFailed
}
