package web

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// Relay is the [Config.Live] of a program without the engine, such as a coordinator: it forwards requests to the pages
// of one that has it, `learner dashboard` at that URL, which reads the same runs' checkpoints. It refuses pages of
// other origins, as the dashboard does, and keeps the viewer's cookies and token to itself.
func Relay(to *url.URL) http.Handler {
	live := *to
	live.Path = strings.TrimSuffix(to.Path, "/") + "/live"
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&live)
			r.Out.Header.Del("Cookie")
			r.Out.Header.Del("Authorization")
			if r.Out.Header.Get("Origin") != "" {
				r.Out.Header.Set("Origin", to.Scheme+"://"+to.Host)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the program that plays does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
				http.Error(w, "a request from a page of another site", http.StatusForbidden)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	})
}
