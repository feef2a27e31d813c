package embedded

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/stream"
)

const patience = 20 * time.Second

// attacker is a principal that speaks to the server without this module's client.
type attacker struct {
	*nats.Conn
	t     *testing.T
	inbox string
}

func attack(t *testing.T, h *Handle, role journal.Role) *attacker {
	t.Helper()
	p, err := find(h.node.dir, role, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := readKey(h.node.dir, p)
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	inbox := fmt.Sprintf("_INBOX.%s.%s", p.role, p.actor)
	nc, err := nats.Connect("", way(h), nats.Nkey(public, key.Sign),
		nats.CustomInboxPrefix(inbox), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &attacker{nc, t, inbox}
}

type connector struct{ *node }

// way is how attackers reach the server: over TCP if it listens, else in the
// process or over the socket.
func way(h *Handle) nats.Option {
	if at := h.Listening(); at != "" {
		return nats.InProcessServer(dialing(at))
	}
	return nats.InProcessServer(connector{h.node})
}

// dialing is a TCP address, with what nats.go writes mangled.
type dialing string

func (at dialing) InProcessConn() (net.Conn, error) {
	nc, err := net.Dial("tcp", string(at))
	return mangler{nc}, err
}

// send publishes and waits until the server has dealt with it.
func (a *attacker) send(m *nats.Msg) {
	a.t.Helper()
	if err := a.PublishMsg(m); err != nil {
		a.t.Fatal(err)
	}
	if err := a.FlushTimeout(patience); err != nil {
		a.t.Fatal(err)
	}
}

// ask is a request that must be answered.
func (a *attacker) ask(subject string, body any) []byte {
	a.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		a.t.Fatal(err)
	}
	m, err := a.Request(subject, data, patience)
	if err != nil {
		a.t.Fatalf("%s: %v", subject, err)
	}
	return m.Data
}

// victim is a subject the agent may not write.
const victim = "journal.s.s1.approver.root"

// forgedInfo claims to be a request of the stream's own account.
const forgedInfo = `{"acc":"J","svc":"J","rtt":1}`

// eachWay runs a test in the process and over TCP.
func eachWay(t *testing.T, name string, run func(t *testing.T, listen string)) {
	t.Helper()
	for way, listen := range map[string]string{"process": "", "tcp": "127.0.0.1:0"} {
		t.Run(name+"/"+way, func(t *testing.T) { run(t, listen) })
	}
}

func TestLaunderingStoresNothing(t *testing.T) {
	apis := []string{"STREAM.INFO.JOURNAL", "STREAM.MSG.GET.JOURNAL", "CONSUMER.INFO.JOURNAL.c", "CONSUMER.MSG.NEXT.JOURNAL.c", "CONSUMER.CREATE.JOURNAL.c"}
	attacks := map[string]func(*attacker){
		"acknowledgement to another's subject": func(a *attacker) {
			a.send(&nats.Msg{Subject: "journal.s.s1.agent.agent", Reply: victim, Data: []byte("own")})
		},
		"trace to another's subject": func(a *attacker) {
			for _, only := range []string{"", "true"} {
				a.send(&nats.Msg{Subject: "journal.s.s1.agent.agent", Data: []byte("own"), Header: nats.Header{
					"Nats-Trace-Dest": {victim}, "Nats-Trace-Only": {only}, "Accept-Encoding": {"identity"},
				}})
			}
		},
		"direct get": func(a *attacker) {
			for _, api := range []string{"J.API.", "$JS.API."} {
				a.send(&nats.Msg{Subject: api + "DIRECT.GET.JOURNAL.journal.s.s1.agent.agent", Reply: victim})
				a.send(&nats.Msg{Subject: api + "DIRECT.GET.JOURNAL", Reply: victim, Data: []byte(`{"seq":1}`)})
			}
		},
		"answers to another's subject": func(a *attacker) {
			a.ask("J.API.CONSUMER.CREATE.JOURNAL.c", map[string]any{"stream_name": "JOURNAL", "config": map[string]any{
				"name": "c", "deliver_policy": "all", "ack_policy": "none", "mem_storage": true, "inactive_threshold": time.Minute}})
			for _, api := range apis {
				a.send(&nats.Msg{Subject: "J.API." + api, Reply: victim, Data: []byte(`{"seq":1}`)})
				a.send(&nats.Msg{Subject: "J.API." + api, Reply: victim, Data: []byte(`{"batch":10,"no_wait":true}`)})
				a.send(&nats.Msg{Subject: "J.API." + api, Reply: victim})
			}
		},
		"presence": func(a *attacker) {
			sub, err := a.SubscribeSync("presence.*.agent.agent")
			if err != nil {
				a.t.Fatal(err)
			}
			a.send(&nats.Msg{Subject: "presence.s1.agent.agent", Reply: victim, Data: []byte("me")})
			if _, err := sub.NextMsg(patience); err != nil {
				a.t.Fatal(err)
			}
			a.send(&nats.Msg{Subject: victim, Data: []byte("a reply to myself")})
			a.send(&nats.Msg{Subject: "presence.s1.decider.decider", Reply: victim, Data: []byte("r1")})
			a.send(&nats.Msg{Subject: "host.holes", Reply: victim})
			a.send(&nats.Msg{Subject: "presence.s1.nobody.nobody", Reply: victim})
		},
	}
	for _, to := range []string{victim, "$JS.API.STREAM.DELETE.JOURNAL", "$JS.API.STREAM.UPDATE.JOURNAL", "$JS.API.STREAM.PURGE.JOURNAL", "$JS.API.STREAM.MSG.DELETE.JOURNAL"} {
		attacks["push to "+to] = func(a *attacker) { push(a, to) }
	}
	for name, run := range attacks {
		eachWay(t, name, func(t *testing.T, listen string) {
			h := open(t, Config{Dir: t.TempDir() + "/j", Listen: listen})
			if err := h.Answer(t.Context(), journal.Subject{Role: journal.RoleDecider, Actor: "decider"}, ""); err != nil {
				t.Fatal(err)
			}
			if err := h.Answer(t.Context(), journal.Subject{Chain: journal.SessionChain("s1"), Role: journal.RoleDecider, Actor: "decider"}, "r1"); err != nil {
				t.Fatal(err)
			}
			a := attack(t, h, journal.RoleAgent)
			a.ask("journal.s.s0.agent.agent", "something to read")
			run(a)
			a.ask("journal.s.s1.agent.agent", "last")
			wantOnlyOwn(t, h)
		})
	}
}

// push makes a consumer that pushes the attacker's own messages, which hold a
// forged request, to a subject of the stream's account.
func push(a *attacker, to string) {
	update, err := json.Marshal(jetstream.StreamConfig{Name: "JOURNAL", Subjects: []string{"journal.>"}, MaxAge: time.Minute})
	if err != nil {
		a.t.Fatal(err)
	}
	for i, body := range [][]byte{nil, update, []byte(`{"seq":1}`)} {
		a.send(&nats.Msg{Subject: "journal.s.s1.agent.agent", Data: body, Header: nats.Header{"Nats-Request-Info": {forgedInfo}}})
		name := fmt.Sprint("p", i)
		out := a.ask("J.API.CONSUMER.CREATE.JOURNAL."+name, map[string]any{"stream_name": "JOURNAL", "config": map[string]any{
			"name": name, "deliver_policy": "all", "ack_policy": "none", "mem_storage": true, "deliver_subject": to}})
		if !strings.Contains(string(out), `"error"`) {
			a.t.Errorf("a push to %s was accepted: %s", to, out)
		}
		a.ask("J.API.STREAM.INFO.JOURNAL", nil)
	}
	// Deliveries and API requests are queued in the server; one more of each
	// that is answered shows that those before it were dealt with.
	for range 20 {
		a.ask("J.API.CONSUMER.INFO.JOURNAL.p0", nil)
		a.ask("J.API.STREAM.MSG.GET.JOURNAL", map[string]any{"seq": 1})
	}
}

// wantOnlyOwn fails unless the stream holds only the agent's own messages, up to
// its last, and has its settings.
func wantOnlyOwn(t *testing.T, h *Handle) {
	t.Helper()
	all, err := journaltest.Collect(h.Load(t.Context(), journal.SessionChain("s1"), 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Subject != "journal.s.s1.agent.agent" {
			t.Errorf("stored under %s: %q %v", m.Subject, m.Data, m.Headers)
		}
	}
	if len(all) == 0 || string(all[len(all)-1].Data) != `"last"` {
		t.Errorf("the agent's last message is not there: %d messages", len(all))
	}
	chains, err := h.Chains(t.Context())
	if err != nil || len(chains) != 2 {
		t.Errorf("chains %v, %v", chains, err)
	}
	wantSettings(t, h)
}

// wantSettings fails unless the stream has its settings: no client opens one
// that has others.
func wantSettings(t *testing.T, h *Handle) {
	t.Helper()
	again, err := stream.Open(t.Context(), h.node.streamConfig(t))
	if err != nil {
		t.Fatalf("the settings have changed: %v", err)
	}
	again.Close()
}

func (n *node) streamConfig(t *testing.T) stream.Config {
	t.Helper()
	p, err := find(n.dir, journal.RoleAuditor, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := readKey(n.dir, p)
	if err != nil {
		t.Fatal(err)
	}
	return stream.Config{Dial: n.dial, Role: p.role, Actor: p.actor, Key: key}
}

// InProcessConn lets nats.go connect through a node.
func (c connector) InProcessConn() (net.Conn, error) {
	nc, err := c.dial()
	if err != nil {
		return nil, err
	}
	return mangler{nc}, nil
}

// TestAnothersConsumer: who finds out what the consumer of another is called can
// make it wait, and hide nothing from it.
func TestAnothersConsumer(t *testing.T) {
	eachWay(t, "", func(t *testing.T, listen string) {
		h := open(t, Config{Dir: t.TempDir() + "/j", Listen: listen})
		a := attack(t, h, journal.RoleAgent)
		next, stop := followed(t, h)
		defer stop()
		const each = 40 // more than are read one by one
		for round := range 5 {
			for i := range each {
				a.ask("journal.s.s1.agent.agent", i)
			}
			for i := range each {
				if m, want := next(), uint64(round*each+i+1); m.Seq != want {
					t.Fatalf("message %d comes after %d", m.Seq, want-1)
				}
			}
			for _, name := range consumers(t, h) {
				a.ask("J.API.CONSUMER.DELETE.JOURNAL."+name, nil)
			}
		}
	})
}

// consumers are the names that the server has for what is read from now.
func consumers(t *testing.T, h *Handle) (names []string) {
	t.Helper()
	z, err := h.node.host.server.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range z.AccountDetails {
		for _, s := range account.Streams {
			for _, c := range s.Consumer {
				names = append(names, c.Name)
			}
		}
	}
	if len(names) == 0 {
		t.Fatal("there are none")
	}
	return names
}

func TestNoPrincipalMayAnswerAnywhere(t *testing.T) {
	for _, p := range append(initial("root"), principal{"king", "k"}) {
		perm := stream.PermissionsOf(p.role, p.actor)
		for _, subject := range perm.Publish {
			own := strings.HasPrefix(subject, "journal.") && strings.HasSuffix(subject, "."+string(p.role)+"."+p.actor)
			read := strings.HasPrefix(subject, "J.API.")
			if !own && !read && !slices.Contains([]string{"presence.>", "pong.>", "host.holes"}, subject) {
				t.Errorf("%s may publish to %s", p.role, subject)
			}
		}
	}
}
