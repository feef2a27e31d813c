package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"decisionjournal/journal"
)

// principal is one who may log in: the owner of the key file
// keys/<role>.<actor>.seed.
type principal struct {
	role  journal.Role
	actor string
}

const seedSuffix = ".seed"

func (p principal) file() string { return string(p.role) + "." + p.actor + seedSuffix }

func parsePrincipal(file string) (principal, bool) {
	base, isSeed := strings.CutSuffix(file, seedSuffix)
	role, actor, ok := strings.Cut(base, ".")
	p := principal{journal.Role(role), actor}
	return p, isSeed && ok && p.role.Known() && journal.ValidName(actor)
}

// initial are the principals of a new journal: one of each role, named after
// the role, and the approver after the user who made it.
func initial(userName string) []principal {
	all := []principal{
		{journal.RoleAdmin, "admin"},
		{journal.RoleDecider, "decider"},
		{journal.RoleAgent, "agent"},
		{journal.RoleAuditor, "auditor"},
	}
	return append(all, principal{journal.RoleApprover, approverName(userName, all)})
}

const approverSuffix = "-approver"

func approverName(userName string, taken []principal) string {
	name := journal.NameFrom(userName, journal.MaxNameLen-len(approverSuffix))
	if name == "" {
		return "approver"
	}
	if slices.ContainsFunc(taken, func(p principal) bool { return p.actor == name }) {
		return name + approverSuffix
	}
	return name
}

func currentUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// makeKeys makes a key for each role that has none. Only the holder of the lock
// calls it. Each file appears whole or not at all.
func makeKeys(d dir, userName string) error {
	if err := os.MkdirAll(d.keys(), dirMode); err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	have, err := principals(d)
	if err != nil {
		return err
	}
	for _, p := range initial(userName) {
		if slices.ContainsFunc(have, func(q principal) bool { return q.role == p.role }) {
			continue
		}
		if err := makeKey(d, p); err != nil {
			return fmt.Errorf("make the key of %s %q: %w", p.role, p.actor, err)
		}
	}
	return nil
}

func makeKey(d dir, p principal) error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	defer key.Wipe()
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(d.keys(), p.file()), append(seed, '\n'))
}

// writeWhole writes a file so that after a crash it is there whole or not at all.
func writeWhole(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// principals are those with a key in d, sorted by file name. Other files are
// ignored.
func principals(d dir) ([]principal, error) {
	entries, err := os.ReadDir(d.keys())
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	var all []principal
	for _, entry := range entries {
		if p, ok := parsePrincipal(entry.Name()); ok && entry.Type().IsRegular() {
			all = append(all, p)
		}
	}
	return all, nil
}

// find is the principal of role called actor, or with actor "" the first of role.
func find(d dir, role journal.Role, actor string) (principal, error) {
	all, err := principals(d)
	if err != nil {
		return principal{}, err
	}
	for _, p := range all {
		if p.role == role && (actor == "" || p.actor == actor) {
			return p, nil
		}
	}
	who := string(role)
	if actor != "" {
		who += " " + actor
	}
	return principal{}, fmt.Errorf("%w: there is no key for %s in %s", journal.ErrRefused, who, d.keys())
}

func readKey(d dir, p principal) (nkeys.KeyPair, error) {
	path := filepath.Join(d.keys(), p.file())
	seed, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of %s %q: %w", p.role, p.actor, err)
	}
	key, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return nil, fmt.Errorf("%s holds no key: %w: restore it, or remove it for a new one to be made", path, err)
	}
	return key, nil
}
