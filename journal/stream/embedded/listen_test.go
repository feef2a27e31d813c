package embedded

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/stream"
)

// remote is a client of a role's key over TCP.
func remote(t *testing.T, h *Handle, url string, role journal.Role, options ...nats.Option) *stream.Log {
	t.Helper()
	p, err := find(h.node.dir, role, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := readKey(h.node.dir, p)
	if err != nil {
		t.Fatal(err)
	}
	log, err := stream.Open(t.Context(), stream.Config{URL: url, Role: p.role, Actor: p.actor, Key: key, Timeout: patience, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

func TestListenConforms(t *testing.T) {
	journaltest.Conformance(t, func(t *testing.T) journal.Log {
		h := open(t, Config{Dir: t.TempDir() + "/j", Listen: "127.0.0.1:0"})
		return remote(t, h, "nats://"+h.Listening(), journal.RoleDecider)
	})
}

func TestListenNeedsAKey(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir() + "/j", Listen: "127.0.0.1:0"})
	for name, options := range map[string][]nats.Option{
		"no key":          nil,
		"a user":          {nats.UserInfo("admin", "admin")},
		"a token":         {nats.Token("x")},
		"another's key":   {nats.Nkey("UAGDNZNL2W2IKSVTHCPQUYZZNKTLXZLGSQ6AIGWQWQZ5YQXCBJTXU3QK", func([]byte) ([]byte, error) { return []byte("x"), nil })},
		"the host's name": {nats.Name("auditor host")},
	} {
		nc, err := nats.Connect("nats://"+h.Listening(), append(options, nats.Timeout(patience))...)
		if err == nil {
			nc.Close()
			t.Errorf("%s: logged in", name)
		}
	}
}

// TestListenAsAnother: a key that logs in under another's name is refused at
// once, and not answered by silence.
func TestListenAsAnother(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir() + "/j", User: "ann", Listen: "127.0.0.1:0"})
	for _, role := range roles {
		p, err := find(h.node.dir, role, "")
		if err != nil {
			t.Fatal(err)
		}
		key, err := readKey(h.node.dir, p)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		log, err := stream.Open(t.Context(), stream.Config{URL: "nats://" + h.Listening(), Role: otherRole(role), Actor: "someone", Key: key, Timeout: patience})
		if err == nil {
			log.Close()
		}
		if took := time.Since(began); !errors.Is(err, journal.ErrRefused) || took > patience/2 {
			t.Errorf("the key of %s: %v, after %v", role, err, took)
		}
	}
}

func TestListenOverTLS(t *testing.T) {
	pair, pool := certificate(t)
	h := open(t, Config{Dir: t.TempDir() + "/j", Listen: "0.0.0.0:0", TLS: &tls.Config{Certificates: []tls.Certificate{pair}}})
	_, port, err := net.SplitHostPort(h.Listening())
	if err != nil {
		t.Fatal(err)
	}
	log := remote(t, h, "tls://127.0.0.1:"+port, journal.RoleAgent, nats.Secure(&tls.Config{RootCAs: pool}))
	sub := journal.Subject{Chain: journal.SessionChain("s"), Role: journal.RoleAgent, Actor: "agent"}
	if _, err := log.Publish(t.Context(), sub, 0, []byte("x")); err != nil {
		t.Error(err)
	}
	if nc, err := nats.Connect("nats://127.0.0.1:"+port, nats.Secure(&tls.Config{RootCAs: x509.NewCertPool()})); err == nil {
		nc.Close()
		t.Error("a certificate that nobody vouches for is taken")
	}
	guest := open(t, Config{Dir: string(h.node.dir)}) // over the socket, which has no need of it
	if holes, err := guest.Holes(t.Context()); err != nil || len(holes) > 0 {
		t.Errorf("%v, %v", holes, err)
	}
}

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "journal"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestListenRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, why := range map[string]string{
		"0.0.0.0:0":             "reads along",
		":4222":                 "reads along",
		"journal.example:4222":  "reads along",
		"127.0.0.1":             "HOST:PORT",
		"127.0.0.1:x":           "HOST:PORT",
		"127.0.0.1:70000":       "HOST:PORT",
		taken.Addr().String():   "address already in use",
		"127.0.0.1:-1":          "HOST:PORT",
		"[::1]:4222:4222":       "HOST:PORT",
		"192.0.2.1.example:4.2": "HOST:PORT",
	} {
		h, err := Open(t.Context(), Config{Dir: t.TempDir() + "/j", Role: journal.RoleDecider, Listen: address})
		if err == nil {
			h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", address, err, why)
		}
	}
	h := open(t, Config{Dir: t.TempDir() + "/j", Listen: "0.0.0.0:0", Plain: true})
	if h.Listening() == "" {
		t.Error("what is meant is refused")
	}
}

// TestListenAfterATakeover: the port is opened by whoever hosts and was told to.
func TestListenAfterATakeover(t *testing.T) {
	path := t.TempDir() + "/j"
	first := open(t, Config{Dir: path})
	told := make(chan string, 1)
	second := open(t, Config{Dir: path, Listen: "127.0.0.1:0", Listening: func(at string) { told <- at }})
	if at := first.Listening() + second.Listening(); at != "" {
		t.Fatalf("listening on %s", at)
	}
	closeNow(t, first)
	sub := journal.Subject{Chain: journal.SessionChain("s"), Role: journal.RoleDecider, Actor: "decider"}
	if err := insist(t.Context(), second, sub, "x"); err != nil {
		t.Fatal(err)
	}
	if at := <-told; at != second.Listening() {
		t.Errorf("told of %s, listening on %s", at, second.Listening())
	}
	log := remote(t, second, "nats://"+second.Listening(), journal.RoleAuditor)
	if last, err := log.Last(t.Context()); err != nil || last != 1 {
		t.Errorf("%d, %v", last, err)
	}
	_, err := log.Publish(t.Context(), journal.Subject{Chain: sub.Chain, Role: journal.RoleAuditor, Actor: "auditor"}, 1, []byte("x"))
	if !errors.Is(err, journal.ErrRefused) {
		t.Errorf("an auditor writes: %v", err)
	}
}
