// Package streamtest speaks to a journal's server as a program does that keeps
// to none of its customs, for tests of what comes of that.
package streamtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"decisionjournal/journal"
	"decisionjournal/journal/stream"
)

// patience is how long the server may take to have heard of a message.
const patience = time.Minute

// Principal is whose key is used, and where its server listens.
type Principal struct {
	URL         string
	Seed        []byte // of the key
	Role, Actor string
}

// Message is what is sent: any subject, any headers, any bytes.
type Message struct {
	Subject, Reply string
	Headers        map[string][]string
	Data           []byte
}

// Send sends a message over a connection of its own and returns once the server
// has dealt with it. That the server refuses it is no error.
func (p Principal) Send(m Message) error {
	nc, err := p.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.PublishMsg(&nats.Msg{Subject: m.Subject, Reply: m.Reply, Header: m.Headers, Data: m.Data}); err != nil {
		return err
	}
	return nc.FlushTimeout(patience)
}

// Ask sends a request and waits for its answer, whatever that says.
func (p Principal) Ask(subject string, data []byte) ([]byte, error) {
	nc, err := p.connect()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	m, err := nc.Request(subject, data, patience)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	return m.Data, nil
}

func (p Principal) connect() (*nats.Conn, error) {
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(p.URL, nats.Nkey(public, key.Sign), nats.SkipSubjectValidation(), nats.CustomInboxPrefix("_INBOX."+p.Role+"."+p.Actor),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return nc, nil
}

// Open is the principal's own client, as another machine has it that knows no
// more. It trusts the certificates of roots; nil: the system's.
func (p Principal) Open(ctx context.Context, roots *x509.CertPool) (*stream.Log, error) {
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	return stream.Open(ctx, stream.Config{URL: p.URL, Key: key, Role: journal.Role(p.Role), Actor: p.Actor,
		Options: []nats.Option{func(o *nats.Options) error { // not nats.Secure, which insists on TLS
			o.TLSConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
			return nil
		}}})
}

func (p Principal) key() (nkeys.KeyPair, error) { return nkeys.ParseDecoratedUserNKey(p.Seed) }
