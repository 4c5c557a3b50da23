package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// forwardedHeader holds the role and the name of the sender of a forwarded request. It counts only on a connection with
// a coordinator's certificate, and gives nobody a right that the connection does not have: a coordinator has all.
const forwardedHeader = "Dbqpg-Forwarded-For"

// forwardedHeaders go with a request to the leader: not its sender's secrets, which this node has checked, nor a
// browser's headers about this node.
var forwardedHeaders = []string{"Accept", "Accept-Encoding", "Content-Type", "Idempotency-Key", "User-Agent"}

// forward passes a request on to the leader, which does not pass it on again, and the answer back. The leader has to
// begin its answer within wait.
func (a *api) forward(
	w http.ResponseWriter, r *http.Request, body io.Reader, leader registry.Node, wait time.Duration,
) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	answered := time.AfterFunc(wait, func() { cancel(context.DeadlineExceeded) })
	defer answered.Stop()
	unavailable := func(_ http.ResponseWriter, _ *http.Request, err error) {
		a.fail(w, client.Errorf(client.Unavailable, "%s at %s leads, but does not answer this node "+
			"(%v): retry; if this lasts, check that this node can reach that URL, or ask %s itself",
			leader.ID, leader.URL, cmp.Or(context.Cause(ctx), err), leader.ID))
	}
	target := strings.TrimSuffix(leader.URL, "/") + r.URL.RequestURI()
	out, err := http.NewRequestWithContext(ctx, r.Method, target, body)
	if err == nil && r.TLS != nil && out.URL.Scheme != "https" {
		err = errors.New("its URL does not begin with https://")
	}
	if err != nil {
		unavailable(w, r, err)
		return
	}
	for _, name := range forwardedHeaders {
		if values := r.Header[name]; values != nil {
			out.Header[name] = values
		}
	}
	out.Header.Set(forwardedHeader, who(r))
	out.ContentLength = r.ContentLength
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.Out = out }, Transport: a.others, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug), ErrorHandler: unavailable,
		ModifyResponse: func(response *http.Response) error {
			response.Header.Del(client.NodesHeader) // this node's answer has it
			answered.Reset(answerTimeout)
			extend(w)
			return nil
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}
