package main

import (
	"errors"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
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

func exitCode(err error) int {
	var (
		typed      *cli.MisuseError
		ambiguous  *approver.AmbiguousError
		settled    *approver.SettledError
		notOffered *approver.NotOfferedError
	)
	switch {
	case err == nil:
		return exitOK
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
