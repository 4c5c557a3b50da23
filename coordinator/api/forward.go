package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// forwardedHeader names, in a request that a node passes on to the leader, the role and the name of who sent it. It counts only on a
// connection with a coordinator's certificate, and gives nobody a right that the connection does not have: a coordinator's are all.
const forwardedHeader = "Dbqpg-Forwarded-For"

// passedOn are the headers that go with a request to the leader: not its sender's secrets, which this node has checked, nor a browser's,
// which were about this node.
var passedOn = []string{"Accept", "Content-Type", "Idempotency-Key", "User-Agent"}

// forward passes a request of this node's sender on to the leader, which does not pass it on again, and its answer back.
func (a *API) forward(w http.ResponseWriter, r *http.Request, body []byte, leader registry.Node) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	q, _ := client.ParseQuery(r.URL.Query()) // it was asked here first
	answered := time.AfterFunc(min(q.Wait, client.MaxWait)+timeout, func() { cancel(context.DeadlineExceeded) })
	defer answered.Stop()
	out, err := http.NewRequestWithContext(ctx, r.Method, strings.TrimSuffix(leader.URL, "/")+r.URL.RequestURI(), bytes.NewReader(body))
	if err == nil && r.TLS != nil && out.URL.Scheme != "https" {
		err = errors.New("its URL does not begin with https://")
	}
	unavailable := func(err error) {
		a.fail(w, &client.Error{Code: client.Unavailable, Message: fmt.Sprintf("%s at %s leads, but does not answer this node (%v): retry; "+
			"if this lasts, see that this node can reach that URL, or ask %s itself", leader.ID, leader.URL, err, leader.ID)})
	}
	if err != nil {
		unavailable(err)
		return
	}
	for _, name := range passedOn {
		if values := r.Header[name]; values != nil {
			out.Header[name] = values
		}
	}
	out.Header.Set(forwardedHeader, who(r))
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.Out = out }, Transport: a.others, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		ModifyResponse: func(response *http.Response) error {
			if response.StatusCode == http.StatusTemporaryRedirect { // of an earlier build's
				return errors.New("it says that another leads")
			}
			response.Header.Del(client.NodesHeader) // this node's answer has both
			response.Header.Del(client.LeaderHeader)
			answered.Reset(backupTimeout)
			if response.Header.Get("Content-Type") == octets {
				_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(backupTimeout))
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { unavailable(cmp.Or(context.Cause(ctx), err)) },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}
