// Package sameorigin keeps the pages of other web sites out of an HTTP server: a browser carries out their requests
// from within the network, or on the machine itself, where the server trusts whoever can connect.
package sameorigin

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

var protection = http.NewCrossOriginProtection()

// Check returns an error for a request that a page of another site may have made:
//
//   - one that the browser marks as such, by Sec-Fetch-Site or Origin, unless it only reads
//     ([http.CrossOriginProtection]);
//   - one with a body that is not declared as JSON, which a page can send without asking;
//   - over plain HTTP, one under a host name that its owner may have pointed here to pass for the same site (DNS
//     rebinding). IP addresses, localhost, names without dots and those of Kubernetes' services belong to nobody; names
//     are further ones.
func Check(r *http.Request, names ...string) error {
	if err := protection.Check(r); err != nil {
		return fmt.Errorf("a request from a page of another site: %w", err)
	}
	if r.ContentLength != 0 {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			return fmt.Errorf("a body of type %q: it must be application/json", r.Header.Get("Content-Type"))
		}
	}
	if host := hostname(r.Host); r.TLS == nil && !ours(host) && !slices.Contains(names, host) {
		return fmt.Errorf("%q is not a name of this server: use its IP address, or the name in --advertise-url", host)
	}
	return nil
}

// Handler answers 403 what Check returns an error for.
func Handler(next http.Handler, names ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := Check(r, names...); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func ours(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || host != "" && !strings.Contains(host, ".") ||
		strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".cluster.local")
}

// hostname returns the name in host or host:port, as comparisons need it.
func hostname(text string) string {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(text, "[]")), ".")
}

// Names returns the host names in URLs.
func Names(urls ...string) (names []string) {
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
			names = append(names, hostname(u.Hostname()))
		}
	}
	return names
}
