// Package streamtest speaks to a journal's server as a program does that keeps
// to none of its customs, for tests of what comes of that.
package streamtest

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
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
	key, err := nkeys.ParseDecoratedUserNKey(p.Seed)
	if err != nil {
		return err
	}
	public, err := key.PublicKey()
	if err != nil {
		return err
	}
	nc, err := nats.Connect(p.URL, nats.Nkey(public, key.Sign), nats.CustomInboxPrefix("_INBOX."+p.Role+"."+p.Actor),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer nc.Close()
	if err := nc.PublishMsg(&nats.Msg{Subject: m.Subject, Reply: m.Reply, Header: m.Headers, Data: m.Data}); err != nil {
		return err
	}
	return nc.FlushTimeout(patience)
}
