package main

import (
	"context"
	"crypto/tls"
	"errors"

	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

func (a *app) serveCommand() *cobra.Command {
	var l listening
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Host the journal and decide for every session until stopped",
		Long: "serve hosts the journal, or joins its host and takes over when that dies, and decides for every session\nuntil it gets SIGTERM or SIGINT. Any number may serve one journal: each attempt is decided once.\n\n" +
			"With --listen it opens a TCP port, while it hosts, where other machines log in with the journal's keys, each\n" +
			"with the rights of its role. Give a certificate: without one what is said there can be read on the way, and only\n" +
			"an address of this machine alone is taken, unless --insecure.",
		Example: "  decider serve --journal /var/lib/agents/journal\n  decider serve --listen 10.0.0.5:4222 --tls-cert cert.pem --tls-key key.pem",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := l.config()
			if err != nil {
				return err
			}
			cfg.Role = journal.RoleDecider
			cfg.Listening = func(at string) { a.Notice("listening on %s", at) }
			return a.open(cmd.Context(), cfg, a.deciding(a.serve(cmd.Context(), l.address)))
		},
	}
	cmd.Flags().StringVar(&l.address, "listen", "", "open `HOST:PORT` for other machines; port 0 takes a free one")
	cmd.Flags().StringVar(&l.cert, "tls-cert", "", "certificate `FILE` (PEM) of --listen")
	cmd.Flags().StringVar(&l.key, "tls-key", "", "key `FILE` (PEM) of --listen")
	cmd.Flags().BoolVar(&l.insecure, "insecure", false, "listen without TLS where others can read along")
	return cmd
}

// listening are the flags of --listen.
type listening struct {
	address, cert, key string
	insecure           bool
}

func (l listening) config() (embedded.Config, error) {
	cfg := embedded.Config{Listen: l.address, Plain: l.insecure}
	switch {
	case l.address == "" && (l.cert != "" || l.key != "" || l.insecure):
		return cfg, cli.Misuse("--tls-cert, --tls-key and --insecure are of --listen: name an address")
	case (l.cert == "") != (l.key == ""):
		return cfg, cli.Misuse("--tls-cert and --tls-key go together")
	case l.cert == "":
		return cfg, nil
	}
	pair, err := tls.LoadX509KeyPair(l.cert, l.key)
	if err != nil {
		return cfg, cli.Misuse("the certificate cannot be used: %v", err)
	}
	cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return cfg, nil
}

func (a *app) serve(ctx context.Context, listen string) func(*cli.Journal, *decider.Decider) error {
	return func(o *cli.Journal, d *decider.Decider) error {
		w := &decider.Worker{
			Decider: d,
			Ready: func() {
				how := "joined"
				if o.Handle.Hosting() {
					how = "hosting"
				}
				a.Notice("%s the journal in %s; deciding", how, a.Dir)
				if listen != "" && o.Handle.Listening() == "" {
					a.Notice("%s is opened when this process hosts", listen)
				}
			},
			Problem: func(session string, err error) {
				if err == nil {
					a.Notice("session %s goes on", session)
					return
				}
				a.Notice("session %s is set aside: %v", session, err)
			},
		}
		err := w.Run(ctx)
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil // stopped as asked
		}
		return err
	}
}
