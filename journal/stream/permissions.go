package stream

import (
	"strings"

	"decisionjournal/journal"
)

// Names that clients and servers of a journal agree on.
const (
	// Name is the stream's name.
	Name = "JOURNAL"
	// Prefix is under which principals reach the JetStream API of the stream's
	// account, in place of "$JS.API".
	Prefix = "J.API"
	// HolesSubject is where a host tells what its scan found.
	HolesSubject = "host.holes"

	inboxRoot    = "_INBOX"
	pongRoot     = "pong"
	presenceRoot = "presence"
)

// Permissions are the subjects that a principal may publish and subscribe to,
// all others being denied. The zero value permits nothing. No principal may
// answer on a reply subject of the asker's choice ("allow_responses"): whoever
// asks itself would get any subject that way.
type Permissions struct {
	Publish, Subscribe []string
}

// PermissionsOf are those of the principal role.actor on a server where it
// reaches the stream's API under [Prefix]: its own subjects, reading the
// journal, its own inbox, and presence. Nothing for an unknown role or an
// invalid name.
func PermissionsOf(role journal.Role, actor string) Permissions {
	if !role.Known() || !journal.ValidName(actor) {
		return Permissions{}
	}
	return Permissions{
		Publish: append(
			append(journal.PublishSubjects(role, actor), readSubjects(Prefix)...),
			presenceRoot+".>", pongRoot+".>", HolesSubject,
		),
		Subscribe: []string{
			inbox(role, actor) + ".>",
			pongs(role, actor) + ".>",
			journal.PresenceSubject(journal.Subject{Role: role}),
			journal.PresenceSubject(journal.Subject{Role: role, Actor: actor}),
		},
	}
}

// HostPermissions are those of the host itself among the principals: it reads,
// and tells what its scan for holes found.
func HostPermissions() Permissions {
	p := PermissionsOf(journal.RoleAuditor, HostActor)
	p.Subscribe = append(p.Subscribe, HolesSubject)
	return p
}

// HostActor is the name under which a host reads its own journal.
const HostActor = "host"

// readSubjects is the API that reading needs: the stream's state, the leader's
// message get, and consumers.
func readSubjects(prefix string) []string {
	return []string{
		prefix + ".STREAM.INFO." + Name,
		prefix + ".STREAM.MSG.GET." + Name,
		prefix + ".CONSUMER.CREATE." + Name + ".>",
		prefix + ".CONSUMER.MSG.NEXT." + Name + ".>",
		prefix + ".CONSUMER.INFO." + Name + ".>",
		prefix + ".CONSUMER.DELETE." + Name + ".>",
	}
}

// inbox is where the principal receives acknowledgements and what it reads.
// Nobody else may publish there.
func inbox(role journal.Role, actor string) string {
	return inboxRoot + "." + string(role) + "." + actor
}

// pongs is where the principal receives answers of other principals. Anybody
// may publish there: presence proves nothing.
func pongs(role journal.Role, actor string) string {
	return pongRoot + "." + string(role) + "." + actor
}

// Service is one subject of the stream's account that the principals' account
// imports: what is not listed cannot be asked for, whatever a principal's
// permissions say.
type Service struct {
	Subject      string // in the stream's account
	To           string // in the principals' account; "" is the same
	ResponseType string // "stream" where one request has several answers
}

// Services are all subjects between the two accounts.
func Services() []Service {
	all := []Service{{Subject: journal.AllSessions}, {Subject: journal.PolicyChain().Filter()}}
	local := readSubjects(apiRoot)
	for i, to := range readSubjects(Prefix) {
		s := Service{Subject: local[i], To: to}
		if strings.Contains(to, ".CONSUMER.MSG.NEXT.") {
			s.ResponseType = "stream"
		}
		all = append(all, s)
	}
	return all
}

// apiRoot is the prefix of the JetStream API in the stream's own account.
const apiRoot = "$JS.API"
