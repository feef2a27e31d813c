package journal_test

import (
	"context"
	"errors"
	"testing"

	"decisionjournal/journal"
)

func TestRepairOfPolicies(t *testing.T) {
	c := chainOf(t, journal.PolicyChain())
	c.add(dec, journal.NewPolicyBytes([]byte("rules: []")))
	lost, err := c.mem.Publish(t.Context(), journal.Subject{Chain: journal.SessionChain("s"), Role: dec.Role, Actor: dec.Actor}, 0, []byte("lost"))
	if err != nil {
		t.Fatal(err)
	}
	c.mem.Drop(lost)
	c.st.MarkHoles([]uint64{lost})
	if cond, _ := c.st.Condition(); cond != journal.Broken {
		t.Fatalf("a hole past its head leaves the policy chain %s", cond)
	}
	c.append(root, c.events(&journal.Repair{Missing: []uint64{lost}, Reason: "lost"})...)
	if cond, _ := c.st.Condition(); cond != journal.Whole {
		t.Fatalf("repaired, it is %s", cond)
	}
	c.add(dec, journal.NewPolicyBytes([]byte("rules: [] # again")))
}

// stuck is a log whose last message of a chain cannot be read, and whose
// server still takes nothing but what expects it.
type stuck struct {
	journal.Log
	lost uint64
	sent []journal.Message
}

func (s *stuck) Publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	if after != s.lost {
		return 0, journal.ErrConflict
	}
	m := journal.Message{Seq: s.lost + 1, Time: epoch, Subject: sub.String(), Headers: journal.ExpectHeaders(sub.Chain, after), Data: data}
	s.sent = append(s.sent, m)
	return m.Seq, nil
}

func TestRepairPastAnUnreadableHead(t *testing.T) {
	c := newSession(t)
	_, grant := c.grantedCall()
	lost := c.st.LastSeq() + 1
	log := &stuck{Log: c.mem, lost: lost}
	w := c.writer(root, log)
	c.st.MarkHoles([]uint64{lost})
	if err := w.AppendRepair(t.Context(), c.st, w.Now(c.st), &journal.Repair{Missing: []uint64{lost}, Reason: "lost"}); err != nil {
		t.Fatal(err)
	}
	if cond, _ := c.st.Condition(); cond != journal.Whole || c.st.Grant(grant).Ended != "repaired" {
		t.Fatalf("%s, grant %q", cond, c.st.Grant(grant).Ended)
	}
	again := journal.NewState(c.st.Chain()) // whoever folds the chain comes to the same
	for m, err := range c.mem.Load(t.Context(), c.st.Chain(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		again.Apply(m)
	}
	if v, why := again.Apply(log.sent[0]); v != journal.Valid {
		t.Fatalf("%s: %s", v, why)
	}
	// Nobody but an admin repairs, and a repair names what it stands on.
	for name, change := range map[string]func(*journal.Commit){
		"by a decider": func(k *journal.Commit) { k.Role, k.Actor = dec.Role, dec.Actor },
		"names another message": func(k *journal.Commit) {
			k.Events[0].Body.(*journal.Repair).Missing = []uint64{lost - 1}
		},
		"after is not it": func(k *journal.Commit) { k.After = lost - 1 },
		"no repair first": func(k *journal.Commit) {
			k.Events = append([]journal.Event{c.info(`{"any":1}`)}, k.Events...)
		},
	} {
		fresh := journal.NewState(c.st.Chain())
		for m := range c.mem.Load(t.Context(), c.st.Chain(), 0) {
			fresh.Apply(m)
		}
		k, err := journal.Decode(log.sent[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		change(k)
		data, err := k.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m := log.sent[0]
		m.Data, m.Subject = data, journal.Subject{Chain: fresh.Chain(), Role: k.Role, Actor: k.Actor}.String()
		if v, _ := fresh.Apply(m); v != journal.Breaks {
			t.Errorf("%s: %s", name, v)
		}
	}
	if err := w.AppendRepair(t.Context(), c.st, w.Now(c.st), &journal.Repair{Missing: []uint64{}, Reason: "again"}); !errors.Is(err, journal.ErrInvalid) {
		t.Errorf("a whole session was repaired: %v", err)
	}
}

// A repair ends every allow from before it, also one that was started: that
// nothing happened under it does not bring it back.
func TestNotRunAfterARepair(t *testing.T) {
	c := newSession(t)
	call := c.startedCall()
	c.close()
	lost, err := c.mem.Publish(t.Context(), journal.Subject{Chain: journal.SessionChain("other"), Role: dec.Role, Actor: dec.Actor}, 0, []byte("lost"))
	if err != nil {
		t.Fatal(err)
	}
	c.mem.Drop(lost)
	c.st.MarkHoles([]uint64{lost})
	c.append(root, c.events(&journal.Repair{Missing: []uint64{lost}, Reason: "lost"})...)
	c.result(call, journal.StatusNotRun)
	if p := c.st.Call(call).Last().Progress; p != journal.Void || !c.st.Call(call).Due {
		t.Fatalf("the attempt is %s, the next due: %t", p, c.st.Call(call).Due)
	}
}
