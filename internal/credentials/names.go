package credentials

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// maxName bounds a member's name.
const maxName = 63

// localHosts are this machine's own names, which every server's certificate contains.
var localHosts = []string{"localhost", "127.0.0.1", "::1"}

func withLocal(hosts []string) []string {
	all := slices.Clone(localHosts)
	for _, host := range hosts {
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

func checkHosts(hosts []string) error {
	for _, host := range hosts {
		if err := checkHost(host); err != nil {
			return err
		}
	}
	return nil
}

// checkHost returns an error for what is neither an address nor a name that a certificate may contain.
func checkHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	rest := strings.TrimPrefix(host, "*.")
	ok := rest != "" && len(rest) <= 253 && !strings.HasPrefix(rest, ".") && !strings.Contains(rest, "..")
	for _, c := range rest {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_')
	}
	if !ok {
		return fmt.Errorf("host %q: give just a name or an address, such as learner.example or 192.0.2.1", host)
	}
	return nil
}

// checkName returns an error for a member's name that is not a portable directory name.
func checkName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '-' && name != authorityDirectory
	for _, c := range name {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("member %q: give 1 to %d lower-case letters, digits and -, such as actor-berlin", name, maxName)
	}
	return nil
}
