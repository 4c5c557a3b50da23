package credentials

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
)

// Bounds of the lengths of a member's name and of a host's.
const maxName, maxHost = 63, 255

// localHosts are this machine's own names, which every server's certificate contains.
var localHosts = []string{"localhost", "127.0.0.1", "::1"}

// hostsOf returns the hosts that a member's certificate contains: none if its role has no servers. Of the given ones,
// ROLE=HOST is for that role only.
func hostsOf(role proto.Role, hosts []string) (all []string) {
	if !serves(role) {
		return nil
	}
	all = slices.Clone(localHosts)
	for _, host := range hosts {
		if only, rest, found := strings.Cut(host, "="); found && only == string(role) {
			host = rest
		} else if found {
			continue
		}
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

var (
	hostPattern = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)
	namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
)

// checkHosts returns an error unless each host is an address or a name that a certificate may contain, for all roles or
// one.
func checkHosts(hosts []string) error {
	for _, host := range hosts {
		if role, rest, found := strings.Cut(host, "="); found && serves(proto.Role(role)) {
			host = rest
		}
		if net.ParseIP(host) == nil && (len(host) > maxHost || !hostPattern.MatchString(host)) {
			return fmt.Errorf("host %q: give a name or an address alone, such as learner.example or 192.0.2.1", host)
		}
	}
	return nil
}

// checkName returns an error unless a member's name is a portable directory name, and a token of NATS's subjects.
func checkName(name string) error {
	if len(name) > maxName || name == authorityDirectory || name == proto.Anyone || !namePattern.MatchString(name) {
		return fmt.Errorf("member %q: give 1 to %d lower-case letters, digits and -, such as actor-berlin", name,
			maxName)
	}
	return nil
}
