package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// host reads a URL's host: absolute http or https and ASCII only, with nothing
// in the authority but a plain host and a port. Whatever parsers are known to
// disagree about (user info, percent, backslash, blanks) makes it unknown.
func host(url string) (string, bool) {
	for i := range len(url) {
		if url[i] <= ' ' || url[i] >= 0x7f {
			return "", false
		}
	}
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", false
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if strings.HasPrefix(rest, "[") {
		return bracketed(rest[1:])
	}
	name, port, _ := strings.Cut(rest, ":")
	return plainHost(strings.TrimSuffix(strings.ToLower(name), "."), port)
}

func plainHost(name, port string) (string, bool) {
	if !hostName(name) || !portNumber(port) {
		return "", false
	}
	return name, true
}

func bracketed(rest string) (string, bool) {
	text, after, ok := strings.Cut(rest, "]")
	port, colon := strings.CutPrefix(after, ":")
	if !ok || after != "" && !colon || !portNumber(port) {
		return "", false
	}
	return address(text)
}

// address reads an IPv6 address without a zone and writes it in its one usual
// form.
func address(s string) (string, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return "", false
	}
	return a.String(), true
}

func portNumber(s string) bool {
	if s == "" {
		return true
	}
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// hostName accepts letters, digits, "-", "_" and inner dots.
func hostName(s string) bool {
	for i := range len(s) {
		if !nameByte(s[i]) && s[i] != '.' {
			return false
		}
	}
	return s != "" && s[0] != '.' && s[len(s)-1] != '.'
}

// checkHost accepts an exact host or "*." and a host.
func checkHost(s string) error {
	if _, ok := address(s); ok || hostName(strings.TrimPrefix(s, "*.")) {
		return nil
	}
	return fmt.Errorf("host %q is neither a plain host name or IPv6 address nor *. and a host name; leave out scheme, port and path", s)
}

// matchHost compares a rule's host with one read from a call, without letter
// case. "*.a.b" covers what lies below a.b, not a.b itself.
func matchHost(pattern, host string) bool {
	if below, ok := strings.CutPrefix(pattern, "*."); ok {
		cut := len(host) - len(below)
		return cut > 1 && host[cut-1] == '.' && strings.EqualFold(host[cut:], below)
	}
	if strings.EqualFold(pattern, host) {
		return true
	}
	if !strings.Contains(pattern, ":") {
		return false
	}
	a, ok := address(pattern)
	return ok && a == host
}
