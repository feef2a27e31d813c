// Package policy judges tool calls by plain-data rules: allow, deny or ask.
//
// [Parse] reads a policy file, [Policy.Facts] reads what a call touches, and
// [Policy.Judge] decides from facts, rules and grants. Everything here is a
// pure function: no clock, no file, no environment. The same facts under the
// same policy bytes and engine give the same verdict for ever.
//
// Matching fails closed. Whatever cannot be read is unknown; an allow never
// fires on it, a deny or ask always does. Paths are compared as text only, so
// links inside an allowed directory are the business of whoever opens files.
package policy

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// Engine names this evaluator; it is recorded in every decision. It changes
// whenever the same arguments may give other facts, or the same facts another
// verdict.
//
// In policy/1 a shell line was never taken apart: it was one unknown command.
const Engine = "policy/2"

// Policy is a parsed policy file. Make one with [Parse] or [Default] and do
// not change it; then all methods may be called concurrently. The zero Policy
// has no rules: it asks about everything.
type Policy struct {
	// Rules are the static rules. Their order decides only which of two
	// equally specific rules is reported.
	Rules []Rule
	// Roots maps prefixes of tool names to the directory relative paths are
	// measured from; the longest prefix counts, "" is every tool's.
	Roots map[string]string
	// PathParams names the location parameters by tool pattern. Without an
	// entry they are path, from and to.
	PathParams map[string][]string
	// CommandParams names the command parameters by tool pattern.
	CommandParams map[string]CommandParams
	// Agents are the coding agents whose tools the built-in tables name.
	Agents []string
	// Names say what tools are, before those tables.
	Names []Name
	// AdvisoryParams names parameters by tool pattern that do not belong to a
	// call's identity.
	AdvisoryParams map[string][]string
	// SafeEnv are variables an allowed command may be given, beside the few
	// built in that only change how output looks.
	SafeEnv []string
	// FoldPaths compares directories of deny and ask rules without letter
	// case. Nil is true.
	FoldPaths *bool
	// Floor is whether the danger floor is on.
	Floor Floor
	// Settings are what is no rule.
	Settings Settings
	// Approval says who answers what; the first entry that matches counts.
	Approval []Approval
	// Principals are the known writers by name. Empty: any name is known.
	Principals map[string]Principal
	// Groups are lists of principals by name.
	Groups map[string][]string
	// Importers are deciders that may bring in grants from elsewhere.
	Importers []string
	// Frontends are approvers that may pass on the answers of others.
	Frontends []string

	source []byte
	lines  []int  // of Rules, in the file
	index  *index // nil: it is made for each call
}

// CommandParams names the parameters that hold a command. The zero value is
// command and args.
type CommandParams struct {
	// Command holds the program, Args its list of arguments.
	Command, Args string
	// Line holds a whole shell line, Argv a list of a program and its arguments;
	// then the others are empty.
	Line, Argv string
}

// Floor says whether the danger floor is on. The zero value is on.
type Floor struct {
	// Off switches it off.
	Off bool
	// Home is the home directory that it guards, beside those under /home, /Users
	// and /root. "" is no other.
	Home string
	// Config are directories of what decides about agents: that of the policy, of
	// the journal.
	Config []string
}

// Principal is what a policy knows of one writer.
type Principal struct {
	// Key is the principal's public key, "" if the policy does not bind one.
	Key string
	// Role is agent, decider, approver, admin or auditor; "" for approver.
	Role string
}

// What becomes of a call whose earlier attempt has an unknown outcome.
const (
	InterruptedAsk   = "ask"   // a person is asked whether to run it again
	InterruptedRetry = "retry" // it is judged as if it were new
	InterruptedFail  = "fail"  // it is denied
)

// DefaultDenyRepeats is how many denials by a person of the same call in one
// run answer its repetition, if the policy does not say.
const DefaultDenyRepeats = 2

// MinDecisionTTL is the shortest decision-ttl: an allow must outlive the append
// that starts it.
const MinDecisionTTL = time.Second

// Settings are a policy's settings. The zero value is the default.
type Settings struct {
	// Interrupted is one of the three words above; "" is ask.
	Interrupted string
	// Idempotent are patterns of tools for which interrupted means retry,
	// unless Interrupted is fail.
	Idempotent []string
	// DecisionTTL is how long an unspent allow lives, at least MinDecisionTTL; 0
	// is for ever.
	DecisionTTL time.Duration
	// Deadline is how long a question lives before it is denied; 0 is for
	// ever. An approval entry may say otherwise.
	Deadline time.Duration
	// DenyRepeats is how many denials answer a repetition; 0 is
	// [DefaultDenyRepeats].
	DenyRepeats int
}

// Repeats returns DenyRepeats with its default.
func (s Settings) Repeats() int {
	if s.DenyRepeats == 0 {
		return DefaultDenyRepeats
	}
	return s.DenyRepeats
}

// Interrupted resolves what an unknown outcome means for a tool: ask, retry or
// fail. Anything unknown in the settings asks.
func (p *Policy) Interrupted(tool string) string {
	switch {
	case p.Settings.Interrupted == InterruptedFail:
		return InterruptedFail
	case p.Settings.Interrupted == InterruptedRetry:
		return InterruptedRetry
	case slices.ContainsFunc(p.Settings.Idempotent, func(s string) bool { return p.speaksOf(s, tool) }):
		return InterruptedRetry
	}
	return InterruptedAsk
}

func (p *Policy) foldPaths() bool { return p.FoldPaths == nil || *p.FoldPaths }

// RuleLine is the line of the file that a rule begins on, by its place in Rules. It
// is 0 for a policy that was not parsed and for a place where there is no rule.
func (p *Policy) RuleLine(i int) int {
	if i < 0 || i >= len(p.lines) {
		return 0
	}
	return p.lines[i]
}

// Bytes returns a copy of the bytes the policy was parsed from, nil for one
// that was not.
func (p *Policy) Bytes() []byte { return slices.Clone(p.source) }

// Digest is "sha256:" and the hex digest of [Policy.Bytes]: the name of the
// policy wherever decisions cite it.
func (p *Policy) Digest() string {
	sum := sha256.Sum256(p.source)
	return "sha256:" + hex.EncodeToString(sum[:])
}

//go:embed default.yaml
var defaultBytes string

// Default is the policy for coding agents that ships with the program: file
// tools that only read, and asking the user, are allowed; everything else asks.
func Default() *Policy {
	p, err := Parse("default.yaml", []byte(defaultBytes))
	if err != nil {
		panic(fmt.Sprintf("the embedded policy is broken: %v", err))
	}
	return p
}
