package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/stream/streamtest"
)

// remoteAgent is a plain agent on another machine: all it knows of the journal
// is an address, the file of its key and, with -roots, whose certificates it
// trusts:
//
//	remoteagent [-roots FILE] URL KEY SESSION TOOL ARGUMENTS
func remoteAgent(args []string) error {
	var roots *x509.CertPool
	if len(args) > 2 && args[0] == "-roots" {
		text, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s holds no certificate", args[1])
		}
		args = args[2:]
	}
	if len(args) != 5 {
		return errors.New("usage: remoteagent [-roots FILE] URL KEY SESSION TOOL ARGUMENTS")
	}
	seed, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	ctx, cancel := within()
	defer cancel()
	log, err := streamtest.Principal{URL: args[0], Seed: seed, Role: "agent", Actor: "agent"}.Open(ctx, roots)
	if err != nil {
		return err
	}
	defer log.Close()
	return callOnce(ctx, journal.Config{Log: log, Role: journal.RoleAgent, Actor: "agent"}, args[2:])
}

// certificate makes a certificate of this machine, which vouches for itself:
//
//	certificate CERT KEY
func certificate(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: certificate CERT KEY")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "journal"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(args[0], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(args[1], pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
