package embedded

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
)

var roles = []journal.Role{
	journal.RoleAdmin, journal.RoleDecider, journal.RoleAgent, journal.RoleApprover, journal.RoleAuditor,
}

// TestRoleMatrix: each role's own key writes its own subjects and is refused
// every other.
func TestRoleMatrix(t *testing.T) {
	eachWay(t, "", testRoleMatrix)
}

func testRoleMatrix(t *testing.T, listen string) {
	h := open(t, Config{Dir: t.TempDir() + "/j", User: "alice", Timeout: patience, Listen: listen})
	writesPolicy := map[journal.Role]bool{journal.RoleAdmin: true, journal.RoleDecider: true}
	for _, role := range roles {
		log, actor := as(t, h, role)
		for _, as := range roles {
			for _, name := range []string{actor, "other", "alice", "decider"} {
				own := role == as && name == actor
				session := journal.Subject{Chain: journal.SessionChain(fmt.Sprintf("%s-%s-%s", role, as, name)), Role: as, Actor: name}
				wantPublish(t, log, session, own && role != journal.RoleAuditor)
				policy := journal.Subject{Chain: journal.PolicyChain(), Role: as, Actor: name}
				wantPublish(t, log, policy, own && writesPolicy[role])
			}
		}
	}
}

// as is a client of a role's key: over TCP if the host listens.
func as(t *testing.T, h *Handle, role journal.Role) (log journal.Log, actor string) {
	t.Helper()
	if at := h.Listening(); at != "" {
		there := remote(t, h, "nats://"+at, role)
		_, actor = there.Principal()
		return there, actor
	}
	log, actor, err := h.As(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	return log, actor
}

// wantPublish tries to append to the end of sub's chain. A refusal must not take
// as long as a request may.
func wantPublish(t *testing.T, log journal.Log, sub journal.Subject, allowed bool) {
	t.Helper()
	var head uint64
	for m, err := range log.Load(t.Context(), sub.Chain, 0) {
		if err != nil {
			t.Fatal(err)
		}
		head = m.Seq
	}
	began := time.Now()
	_, err := log.Publish(t.Context(), sub, head, []byte("x"))
	if took := time.Since(began); took > patience/4 {
		t.Errorf("publish to %s took %v", sub, took)
	}
	switch {
	case allowed && err != nil:
		t.Errorf("publish to own %s: %v", sub, err)
	case !allowed && !errors.Is(err, journal.ErrRefused):
		t.Errorf("publish to %s: got %v, want ErrRefused", sub, err)
	case !allowed && !strings.Contains(err.Error(), sub.String()):
		t.Errorf("%q does not name %s", err, sub)
	}
}

// TestNoRoleManages: no key may change, end or copy the stream, read it by
// direct get, or listen where others do.
func TestNoRoleManages(t *testing.T) {
	eachWay(t, "", testNoRoleManages)
}

func testNoRoleManages(t *testing.T, listen string) {
	h := open(t, Config{Dir: t.TempDir() + "/j", User: "alice", Listen: listen})
	publish := []string{
		"STREAM.DELETE.JOURNAL", "STREAM.UPDATE.JOURNAL", "STREAM.PURGE.JOURNAL", "STREAM.CREATE.JOURNAL", "STREAM.CREATE.X",
		"STREAM.MSG.DELETE.JOURNAL", "STREAM.SNAPSHOT.JOURNAL", "STREAM.RESTORE.JOURNAL", "STREAM.INFO.OTHER",
		"STREAM.LEADER.STEPDOWN.JOURNAL", "STREAM.PEER.REMOVE.JOURNAL", "STREAM.NAMES", "STREAM.LIST",
		"DIRECT.GET.JOURNAL", "DIRECT.GET.JOURNAL.journal.s.s1.agent.agent",
		"CONSUMER.LIST.JOURNAL", "CONSUMER.NAMES.JOURNAL", "CONSUMER.DURABLE.CREATE.JOURNAL.c", "CONSUMER.PAUSE.JOURNAL.c",
		"CONSUMER.CREATE.OTHER.c", "CONSUMER.CREATE.JOURNAL", "CONSUMER.RESET.JOURNAL.c", "CONSUMER.UNPIN.JOURNAL.c",
		"CONSUMER.LEADER.STEPDOWN.JOURNAL.c", "CONSUMER.MSG.NEXT.OTHER.c", "CONSUMER.DELETE.OTHER.c",
		"INFO", "META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.J", "ACCOUNT.STREAM.MOVE.J.JOURNAL",
		"STREAM.TEMPLATE.CREATE.X", "STREAM.TEMPLATE.DELETE.X",
	}
	for _, role := range roles {
		a := attack(t, h, role)
		for _, api := range []string{"J.API.", "$JS.API."} {
			for _, subject := range publish {
				a.wantViolation("Publish", api+subject, func() error { return a.Publish(api+subject, nil) })
			}
		}
		for _, subject := range []string{
			"$JS.API.STREAM.INFO.JOURNAL", "$JS.ACK.JOURNAL.c.1.1.1.1.1", "$SYS.REQ.SERVER.PING", "_INBOX.decider.other.x",
			"journal.s.s1.agent", "journal.policy.x", "journal.checkpoint.admin.admin", "journal.x", "other",
			"$JS.FC.JOURNAL.c.x", "$JS.EVENT.ADVISORY.x", "$SYS.ACCOUNT.J.CONNECT", "$SRV.PING", "$KV.x.y", "$O.x.y", "$MQTT.x", "$NRG.x",
		} {
			a.wantViolation("Publish", subject, func() error { return a.Publish(subject, nil) })
		}
		for _, subject := range []string{
			">", "*", "journal.>", "_INBOX.>", "_INBOX.*.*.>", "_INBOX.decider.other.>", "pong.>", "host.holes", "presence.>",
			"presence.*.king.>", "J.API.>", "$JS.API.>", "$SYS.>",
		} {
			a.wantViolation("Subscription", subject, func() error {
				_, err := a.SubscribeSync(subject)
				return err
			})
		}
	}
	if last, err := h.Last(t.Context()); err != nil || last != 0 {
		t.Errorf("%d messages are stored, %v", last, err)
	}
	wantSettings(t, h)
}

// wantViolation fails unless the server refuses what do sends.
func (a *attacker) wantViolation(kind, subject string, do func() error) {
	a.t.Helper()
	if err := do(); err != nil {
		a.t.Fatal(err)
	}
	if err := a.FlushTimeout(patience); err != nil {
		a.t.Fatal(err)
	}
	want := fmt.Sprintf("%s to %q", kind, subject)
	if err := a.LastError(); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), want) {
		a.t.Errorf("%s: %s: got %v", a.inbox, want, err)
	}
}

func TestNobodyElseLogsIn(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir() + "/j"})
	guest := open(t, Config{Dir: string(h.node.dir)})
	if nc, err := nats.Connect("", nats.InProcessServer(connector{guest.node})); err == nil {
		nc.Close()
		t.Error("logged in without a key")
	}
	_, err := Open(t.Context(), Config{Dir: string(h.node.dir), Role: journal.RoleApprover, Actor: "nobody"})
	if !errors.Is(err, journal.ErrRefused) {
		t.Errorf("opening as an approver who is not there: %v", err)
	}
	if _, err := Open(t.Context(), Config{Dir: string(h.node.dir), Role: "king"}); !errors.Is(err, journal.ErrRefused) {
		t.Errorf("opening with a role that is none: %v", err)
	}
	if _, err := Open(t.Context(), Config{Dir: string(h.node.dir)}); !errors.Is(err, journal.ErrRefused) {
		t.Errorf("opening with no role: %v", err)
	}
}

func TestPresenceNeedsTheRole(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir() + "/j"})
	for _, sub := range []journal.Subject{
		{Chain: journal.SessionChain("s1"), Role: journal.RoleApprover, Actor: "decider"},
		{Role: journal.RoleDecider, Actor: "other"},
	} {
		if err := h.Answer(t.Context(), sub, "r"); !errors.Is(err, journal.ErrRefused) {
			t.Errorf("answering for %+v: got %v, want ErrRefused", sub, err)
		}
	}
}
