package embedded

import (
	"fmt"
	"net"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"

	"decisionjournal/journal"
)

// checkListen refuses an address that cannot be meant, before anything is made.
func checkListen(cfg Config) error {
	if cfg.Listen == "" {
		return nil
	}
	host, _, err := splitAddress(cfg.Listen)
	if err != nil {
		return err
	}
	if cfg.TLS == nil && !cfg.Plain && !loopback(host) {
		return fmt.Errorf("listen on %s: other machines reach it, and without TLS whoever is on the way reads along: give a certificate, listen on 127.0.0.1, or say that it is meant", cfg.Listen)
	}
	return nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen on %q: no address: use HOST:PORT, such as 127.0.0.1:4222", address)
	}
	return host, port, nil
}

// loopback reports whether only this machine reaches an address of host.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listenOn has the server open the address of cfg, if there is one. It tries
// the address first: the server itself would only log that it is taken.
func listenOn(opts *server.Options, cfg Config) error {
	if cfg.Listen == "" {
		return nil
	}
	host, port, err := splitAddress(cfg.Listen)
	if err != nil {
		return err
	}
	probe, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
	}
	if err := probe.Close(); err != nil {
		return err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	opts.DontListen = false
	opts.Host, opts.Port = host, port
	opts.TLSConfig = cfg.TLS
	opts.TLS = cfg.TLS != nil
	opts.NoAuthUser = ""
	return nil
}
