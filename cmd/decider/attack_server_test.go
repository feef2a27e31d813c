package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"decisionjournal/journal"
	"decisionjournal/journal/stream"
	"decisionjournal/journal/stream/streamtest"
)

// attacksOnTheServer are ways to have it store what it should not, or in a place
// or an order that it should not.
func attacksOnTheServer() map[string]func(th *thief) {
	return map[string]func(th *thief){
		"start-without-an-expectation": func(th *thief) {
			data := th.encoded(th.start(th.read, th.allow))
			for range 3 {
				th.raw(streamtest.Message{Subject: th.own(), Data: data})
			}
			th.wantStarts(0, th.read)
		},
		"start-again-under-a-filter-of-its-own": func(th *thief) {
			th.say(th.start(th.read, th.allow))
			headers := th.right()
			headers[journal.HeaderExpectedFilter] = []string{th.own()}
			headers[journal.HeaderExpected] = []string{fmt.Sprint(th.last(journal.RoleAgent).Seq)}
			th.raw(streamtest.Message{Subject: th.own(), Headers: headers, Data: th.encoded(th.start(th.read, th.allow))})
			th.wantStarts(1, th.read)
		},
		"decide-under-a-filter-of-its-own": func(th *thief) {
			headers := th.right()
			headers[journal.HeaderExpectedFilter], headers[journal.HeaderExpected] = []string{"journal.s.nowhere.>"}, []string{"0"}
			th.raw(streamtest.Message{Subject: th.own(), Headers: headers, Data: th.encoded(th.decision(byRule()))})
		},
		"a-batch-of-messages": func(th *thief) {
			for i, data := range [][]byte{th.encoded(th.decision(byRule())), th.encoded(th.start(th.read, th.allow))} {
				headers := th.right()
				headers["Nats-Batch-Id"], headers["Nats-Batch-Sequence"] = []string{"b"}, []string{fmt.Sprint(i + 1)}
				th.raw(streamtest.Message{Subject: th.own(), Headers: headers, Data: data})
			}
		},
		"a-rollup-of-what-was-denied": func(th *thief) {
			headers := th.right()
			headers["Nats-Rollup"] = []string{"sub"}
			th.raw(streamtest.Message{Subject: th.own(), Headers: headers, Data: th.encoded(th.decision(byRule()))})
		},
		"launder-a-forged-decision": launder,
		"a-session-in-two-tokens": func(th *thief) {
			c := th.commit(&journal.Opened{Agent: "main", Run: "r9", Kind: journal.KindSession, Follows: "lenient"})
			c.Session, c.N, c.After, c.Prev = "a.b", 1, 0, ""
			data, err := c.Encode()
			if err != nil {
				data = []byte(`{}`) // no commit has such a session
			}
			for _, name := range []string{"a.b", "a..b", "*", ">", "a b", th.session + ".decider"} {
				th.raw(streamtest.Message{Subject: "journal.s." + name + ".agent.agent", Data: data})
			}
		},
		"a-call-of-many-bytes": func(th *thief) {
			for _, size := range []int{3 << 20, th.log.MaxPayload() + 1} {
				th.bytes(fmt.Appendf(nil, `{"v":1,%s`, strings.Repeat(" ", size-7)))
			}
			call := th.body("danger", fmt.Sprintf(`{"path":%q}`, "/w/"+strings.Repeat("x", 3<<20)))
			th.say(call)
		},
		"answer-anothers-ping": func(th *thief) {
			for _, who := range []string{"decider.decider", "approver." + th.ann.Principal().Actor} {
				th.raw(streamtest.Message{Subject: "pong." + who, Data: []byte("r1")})
				th.raw(streamtest.Message{Subject: "presence." + th.session + "." + who, Reply: "journal.s." + th.session + "." + who, Data: th.encoded(th.decision(byRule()))})
			}
		},
		"acknowledge-for-another": func(th *thief) {
			for _, subject := range []string{"$JS.ACK.JOURNAL.c.1.1.1.1.1", "$JS.FC.JOURNAL.c.x", "_INBOX.decider.decider.x", "host.holes"} {
				th.raw(streamtest.Message{Subject: subject, Reply: "journal.s." + th.session + ".decider.decider", Data: []byte("+ACK")})
			}
		},
		"stop-what-others-read-by": func(th *thief) {
			for _, name := range []string{"c", ">", "*"} {
				th.raw(streamtest.Message{Subject: stream.Prefix + ".CONSUMER.DELETE." + stream.Name + "." + name})
			}
			th.say(th.start(th.read, th.allow))
		},
	}
}

// launder stores a decision in the decider's words under the agent's subject,
// and has the server say it again to the decider's, in each way it says things.
func launder(th *thief) {
	victim := "journal.s." + th.session + ".decider.decider"
	last, err := th.h.Last(th.t.Context())
	if err != nil {
		th.t.Fatal(err)
	}
	c := th.commit(th.decision(byRule()))
	c.Role, c.Actor, c.After = journal.RoleDecider, "decider", last+1 // the message that it is about to be
	th.send(c)
	at := th.last(journal.RoleAgent).Seq
	create := func(name, deliver string) string {
		config := map[string]any{"name": name, "deliver_policy": "by_start_sequence", "opt_start_seq": at, "ack_policy": "none", "mem_storage": true}
		if deliver != "" {
			config["deliver_subject"] = deliver
		}
		data, err := json.Marshal(map[string]any{"stream_name": stream.Name, "config": config})
		if err != nil {
			th.t.Fatal(err)
		}
		answer, err := th.alone().Ask(stream.Prefix+".CONSUMER.CREATE."+stream.Name+"."+name, data)
		if err != nil {
			th.t.Fatal(err)
		}
		return string(answer)
	}
	if answer := create("pull", ""); strings.Contains(answer, `"error"`) {
		th.t.Fatal(answer)
	}
	if answer := create("push", victim); !strings.Contains(answer, `"error"`) {
		th.t.Errorf("the server pushes to %s: %s", victim, answer)
	}
	for _, api := range []string{stream.Prefix, "$JS.API"} {
		for subject, ask := range map[string]string{
			"STREAM.MSG.GET.":  fmt.Sprintf(`{"seq":%d}`, at),
			"DIRECT.GET.":      fmt.Sprintf(`{"seq":%d}`, at),
			"CONSUMER.INFO.":   "",
			"CONSUMER.CREATE.": "{}",
		} {
			th.raw(streamtest.Message{Subject: api + "." + subject + stream.Name, Reply: victim, Data: []byte(ask)})
		}
		th.raw(streamtest.Message{Subject: api + ".DIRECT.GET." + stream.Name + "." + th.own(), Reply: victim})
		th.raw(streamtest.Message{Subject: api + ".CONSUMER.MSG.NEXT." + stream.Name + ".pull", Reply: victim, Data: []byte(`{"batch":10,"no_wait":true}`)})
	}
	th.raw(streamtest.Message{Subject: th.own(), Reply: victim, Headers: th.right(), Data: []byte("an acknowledgement")})
	if m := th.last(journal.RoleDecider); m.Seq > at && strings.Contains(string(m.Data), c.Events[0].ID) {
		th.t.Errorf("stored under %s: %s", m.Subject, m.Data)
	}
}
