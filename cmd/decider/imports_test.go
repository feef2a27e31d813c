package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// module is the import path that all packages of this repository begin with.
const module = "decisionjournal/"

// stand is where a package stands: what of the module and which modules of
// others it may use.
type stand struct {
	pkg    string
	own    []string
	others []string
}

// mayImport is the whole module, each package below all that it may use. The
// standard library is open to all.
var mayImport = []stand{
	{"schemas", nil, nil},
	{"journal", nil, []string{ulidModule}},
	{"journal/stream", []string{"journal"}, []string{natsModule, nkeysModule, nuidModule, backoffModule}},
	{"journal/stream/embedded", []string{"journal", "journal/stream"}, []string{serverModule, natsModule, nkeysModule, backoffModule, hashModule}},
	{"journal/stream/streamtest", []string{"journal", "journal/stream"}, []string{natsModule, nkeysModule}},
	{"journal/inbox", []string{"journal"}, []string{backoffModule}},
	{"journal/inbox/inboxtest", []string{"journal"}, nil},
	{"journal/seal", []string{"journal"}, nil},
	{"journal/journaltest", []string{"journal"}, nil},
	{"journal/journaltest/invariants", []string{"journal"}, nil},
	{"decider/policy/shell", nil, []string{shellModule}},
	{"decider/policy", []string{"decider/policy/shell"}, []string{yamlModule}},
	{"decider/policy/packs", nil, nil},
	{"decider", []string{"journal", "decider/policy"}, []string{backoffModule}},
	{"decider/agent", []string{"journal", "decider/policy", "decider"}, []string{backoffModule}},
	{"decider/gateway", []string{"journal", "decider/policy", "decider", "decider/agent"}, []string{backoffModule}},
	{"decider/hook", []string{"journal", "decider/policy", "decider", "decider/agent"}, []string{backoffModule}},
	{"decider/replay", []string{"journal", "decider/policy", "decider"}, nil},
	{"approver", []string{"journal", "journal/inbox", "decider/policy"}, []string{backoffModule, termModule, sysModule}},
	{"approver/tui", []string{"journal", "journal/inbox", "approver"}, []string{termModule}},
	{"approver/web", []string{"journal", "journal/inbox", "approver"}, nil},
	{"approver/notify", []string{"journal", "journal/inbox", "approver"}, []string{backoffModule}},
	{"decider/bench", []string{"journal", "journal/inbox", "journal/stream", "journal/stream/embedded", "decider/policy", "decider", "decider/agent"}, nil},
	{"decider/chaos", []string{"journal", "journal/inbox", "journal/journaltest/invariants", "journal/stream/embedded", "decider/policy", "decider", "decider/agent", "decider/replay", "approver"}, nil},
	{"cmd/internal/cli", []string{"journal", "journal/stream/embedded", "approver"}, []string{cobraModule}},
	{"cmd/internal/cli/clitest", []string{"journal/journaltest", "cmd/internal/cli"}, []string{testscriptModule}},
	{"cmd/decider", []string{"cmd/internal/cli", "journal", "journal/stream/embedded", "decider/policy", "decider/policy/packs", "decider", "decider/agent", "decider/replay", "decider/bench", "decider/chaos", "approver"}, []string{cobraModule, shellModule}},
	{"cmd/approver", []string{"cmd/internal/cli", "journal", "journal/stream/embedded", "journal/inbox", "decider/policy", "approver"}, []string{cobraModule}},
	{"cmd/replay", []string{"cmd/internal/cli", "journal", "journal/stream/embedded", "decider/replay", "approver"}, []string{cobraModule}},
}

// The modules of others that packages are built from. Whatever is not here is
// for tests alone.
const (
	ulidModule       = "github.com/oklog/ulid/v2"
	natsModule       = "github.com/nats-io/nats.go"
	serverModule     = "github.com/nats-io/nats-server/v2"
	nkeysModule      = "github.com/nats-io/nkeys"
	nuidModule       = "github.com/nats-io/nuid"
	backoffModule    = "github.com/cenkalti/backoff/v4"
	yamlModule       = "go.yaml.in/yaml/v3"
	shellModule      = "mvdan.cc/sh/v3"
	testscriptModule = "github.com/rogpeppe/go-internal"
	cobraModule      = "github.com/spf13/cobra"
	termModule       = "golang.org/x/term"
	sysModule        = "golang.org/x/sys"
	hashModule       = "github.com/minio/highwayhash" // of the server's own records
)

// goPackage is what go list tells of a package.
type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func TestImports(t *testing.T) {
	for _, pkg := range packages(t) {
		name := strings.TrimPrefix(pkg.ImportPath, module)
		i := slices.IndexFunc(mayImport, func(s stand) bool { return s.pkg == name })
		if i < 0 {
			t.Errorf("package %s stands nowhere: give it its place in mayImport", name)
			continue
		}
		for _, imported := range pkg.Imports {
			if !allowed(mayImport[i].own, mayImport[i].others, imported) {
				t.Errorf("package %s may not import %s", name, imported)
			}
		}
	}
}

// TestNATSStaysBelow: no test either reaches around the Log to NATS, but those
// of the packages that are made of it.
func TestNATSStaysBelow(t *testing.T) {
	for _, pkg := range packages(t) {
		name := strings.TrimPrefix(pkg.ImportPath, module)
		for _, imported := range slices.Concat(pkg.Imports, pkg.TestImports, pkg.XTestImports) {
			isServer, isClient := inside(serverModule, imported), inside(natsModule, imported)
			below := inside("journal/stream", name)
			if isClient && !below || isServer && name != "journal/stream/embedded" {
				t.Errorf("package %s or a test of it imports %s", name, imported)
			}
		}
	}
}

// TestEachStandsBelowWhatItUses holds the table itself: a package uses only
// what was listed before it.
func TestEachStandsBelowWhatItUses(t *testing.T) {
	var above []string
	for _, r := range mayImport {
		for _, own := range r.own {
			if !slices.Contains(above, own) {
				t.Errorf("%s may use %s, which does not stand above it", r.pkg, own)
			}
		}
		above = append(above, r.pkg)
	}
}

func allowed(own, others []string, imported string) bool {
	if name, ours := strings.CutPrefix(imported, module); ours {
		return slices.Contains(own, name)
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(others, func(root string) bool { return inside(root, imported) })
}

// inside reports whether path is root or below it.
func inside(root, path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func packages(t *testing.T) (all []goPackage) {
	t.Helper()
	dependOnSources(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg goPackage
		err := dec.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pkg)
	}
	if len(all) < 10 {
		t.Fatalf("go list knows %d packages only", len(all))
	}
	return all
}
