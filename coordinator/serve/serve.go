package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/failpoint"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/proto"
)

// Config holds the settings of a node, each the value of the flag of its name.
type Config struct {
	ID, DataDir, Join, Restore  string
	Peers                       []raftnode.Peer // none, as without Join: the node is its cluster's only one
	Raft, HTTP                  string
	AdvertiseRaft, AdvertiseURL string                   // "": the listening addresses
	Credentials                 *credentials.Credentials // nil: plain connections without authentication
	Tokens                      credentials.Tokens
	Checkpoints, Play, Metrics  string
	Log                         *slog.Logger

	peers, credentials, logLevel, logFormat string // flags in their text form
	insecure                                bool

	connections int      // to the API, at most; 0 means maxConnections
	joinURLs    []string // URLs of the cluster to join unless the node is a member: Join, or those reported by peers
}

// maxConnections bounds the connections to a node's API, and those to its raft, so that strangers cannot use up its
// memory.
const maxConnections = 4096

// shutdownTimeout is how long requests in progress may take to finish.
const shutdownTimeout = 2 * time.Second

// Run serves until ctx is done.
func Run(ctx context.Context, c Config) (err error) {
	if c.Join != "" {
		c.joinURLs = []string{c.Join}
	}
	web, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	defer web.Close()
	metrics := observe.NewCoordinator()
	stopMetrics, err := metrics.Start(observe.Config{Listen: c.Metrics, Log: c.Log})
	if err != nil {
		return err
	}
	defer stopMetrics()
	if c.Credentials != nil {
		metrics.WatchCertificate(c.Credentials.Expires)
	}
	group, ctx := errgroup.WithContext(ctx)
	self := registry.Node{ID: c.ID, URL: c.AdvertiseURL}
	if self.URL == "" {
		self.URL = c.scheme() + "://" + web.Addr().String()
	}
	if err := checkURL("--advertise-url", self.URL); err != nil {
		return err
	}
	handler := new(startup)
	server := c.newServer(ctx, handler)
	group.Go(func() error { return c.serve(server, web) })
	node, address, err := open(ctx, &c)
	if err != nil {
		return errors.Join(ended(ctx, err), shutdown(server), group.Wait())
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	c.Log.Info("serving", "node", c.ID, "url", self.URL, "raft", address)

	defer metrics.Idle("stopping")
	nodes := c.newTransport()
	defer nodes.CloseIdleConnections()
	scrape, err := metrics.Metrics(c.Log)
	if err != nil {
		return errors.Join(err, shutdown(server), group.Wait())
	}
	answers := &api{
		backend: node, leases: newLeases(), expired: metrics.LeaseExpiries.Inc, tokens: c.Tokens, url: self.URL,
		others: nodes, log: c.Log,
	}
	watch(metrics, node, answers)
	mux := http.NewServeMux()
	mux.Handle("/", metrics.Count(answers.handler()))
	mux.HandleFunc("/metrics", answers.admit(func(w http.ResponseWriter, r *http.Request) {
		if err := require(r, look); err != nil {
			answers.fail(w, answers.failure(err))
			return
		}
		scrape.ServeHTTP(w, r)
	}))
	pages := answers.admit(c.pages(answers))
	for _, path := range []string{"/{$}", "/assets/", "/data/", "/live/"} {
		mux.HandleFunc(path, pages)
	}
	all := answers.unkept(mux)
	handler.handler.Store(&all)
	c.Log.Info("open this address in a browser", "url", self.URL+"/")
	group.Go(func() error { return c.end(ctx, server, node) })
	group.Go(func() error { return c.join(ctx, node, self, raftnode.Peer{ID: c.ID, Address: address}) })
	return group.Wait()
}

// newServer returns the API's server. Long polls end with ctx.
func (c *Config) newServer(ctx context.Context, handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: client.MaxWait + time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	observe.LimitConnections(server, cmp.Or(c.connections, maxConnections))
	return server
}

func (c *Config) serve(server *http.Server, web net.Listener) error {
	members := []proto.Role{proto.RoleCoordinator, proto.RoleLearner, proto.RoleOperator, proto.RoleObserver}
	listener := c.secure(web, members...)
	if c.Tokens != "" {
		listener = tls.NewListener(web, withTokens(c.Credentials.Server(members...)))
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", web.Addr(), err)
	}
	return nil
}

// end stops the server once ctx is done or raft has stopped, possibly because of a request still to be answered.
func (c *Config) end(ctx context.Context, server *http.Server, node *raftnode.Node) error {
	select {
	case <-ctx.Done():
		return shutdown(server)
	case <-node.Ended():
		if err := node.Err(); err != nil {
			return errors.Join(err, shutdown(server))
		}
		return errors.Join(fmt.Errorf("node %s was removed from the cluster: to readmit it, start it in an empty "+
			"directory with --join", c.ID), shutdown(server))
	}
}

// shutdown waits for requests in progress, up to shutdownTimeout.
func shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}

// open starts the node once it can form or enter a cluster; address is where its raft listens.
func open(ctx context.Context, c *Config) (*raftnode.Node, string, error) {
	backup, err := c.readBackup()
	if err != nil {
		return nil, "", fmt.Errorf("--restore: %w", err)
	}
	listener, err := net.Listen("tcp", c.Raft)
	if err != nil {
		return nil, "", fmt.Errorf("--raft: %w", err)
	}
	listener = netutil.LimitListener(listener, maxConnections)
	address := c.AdvertiseRaft
	for _, p := range c.Peers {
		if p.ID == c.ID && address == "" {
			address = p.Address
		}
	}
	if address == "" {
		address = listener.Addr().String()
	}
	peers := c.Peers
	self, err := raftnode.ParsePeers(c.ID + "=" + address)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("--advertise-raft: %w", err), listener.Close())
	}
	if len(peers) == 0 && c.Join == "" {
		peers = self
	}
	config := raftnode.Config{
		ID: c.ID, DataDir: c.DataDir, Listener: c.secure(listener, proto.RoleCoordinator), Advertise: address,
		Peers: peers, Restore: backup, Log: c.Log, Now: failpoint.Now,
	}
	if c.Credentials != nil {
		dialer := &tls.Dialer{Config: c.Credentials.Client(proto.RoleCoordinator)}
		config.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	if c.Join != "" || len(peers) > 1 {
		config.Forget = func(ctx context.Context, urls []string) (uint64, error) {
			return c.forget(ctx, urls, client.Joining{ID: c.ID, Address: address})
		}
	}
	node, err := raftnode.Open(ctx, config)
	return node, address, err
}

// forget makes the cluster at urls, or at --join, forget a former node of this name. That is then the cluster to join.
func (c *Config) forget(ctx context.Context, urls []string, lost client.Joining) (term uint64, err error) {
	if c.Join == "" {
		c.joinURLs = urls
	}
	cluster, err := c.newClient(c.joinURLs...)
	if err != nil {
		return 0, err
	}
	defer cluster.Close()
	c.Log.Info("the directory is empty: entering the existing cluster", "nodes", c.joinURLs)
	if term, err = cluster.Lost(ctx, lost); err != nil {
		return 0, fmt.Errorf("enter the cluster: %w", err)
	}
	return term, nil
}

// newTransport returns an http.RoundTripper for forwarding clients' requests to other nodes; it keeps many idle
// connections.
func (c *Config) newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	t := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: 256,
		IdleConnTimeout: time.Minute}
	if c.Credentials != nil {
		t.TLSClientConfig = c.Credentials.Client(proto.RoleCoordinator)
	}
	return t
}

// dialTimeout is how long another node may take to accept a connection.
const dialTimeout = 2 * time.Second

func (c *Config) newClient(urls ...string) (*client.Client, error) {
	settings := client.Config{URLs: urls, Log: c.Log}
	if c.Credentials != nil {
		settings.TLS = c.Credentials.Client(proto.RoleCoordinator)
	}
	return client.New(settings)
}

// readBackup returns the state to start from, or nil.
func (c *Config) readBackup() (*registry.State, error) {
	if c.Restore == "" {
		return nil, nil
	}
	file := os.Stdin
	if c.Restore != "-" {
		var err error
		if file, err = os.Open(c.Restore); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	state, err := registry.Decode(file)
	if err != nil {
		return nil, err
	}
	state.Restore(time.Now())
	return state, nil
}

// secure admits only members of those roles, if there are credentials.
func (c *Config) secure(l net.Listener, roles ...proto.Role) net.Listener {
	if c.Credentials == nil {
		return l
	}
	return tls.NewListener(l, c.Credentials.Server(roles...))
}

// withTokens admits clients without a certificate too: the API asks these for a token.
func withTokens(config *tls.Config) *tls.Config {
	verify := config.VerifyConnection
	config.ClientAuth = tls.VerifyClientCertIfGiven
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil
		}
		return verify(state)
	}
	return config
}

func (c *Config) scheme() string {
	if c.Credentials == nil {
		return "http"
	}
	return "https"
}

// join joins the cluster if necessary, and announces this node's URL to it.
func (c *Config) join(ctx context.Context, node *raftnode.Node, self registry.Node, peer raftnode.Peer) error {
	isSelf := func(m registry.Member) bool { return m.ID == peer.ID && m.Address == peer.Address && m.Voter }
	isMember := slices.ContainsFunc(node.Members(), isSelf)
	urls := []string{self.URL} // by which a member knows the leader
	if !isMember && len(c.joinURLs) > 0 {
		urls = c.joinURLs
	}
	cluster, err := c.newClient(urls...)
	if err != nil {
		return fmt.Errorf("--join: %w", err)
	}
	defer cluster.Close()
	if !isMember {
		if err := cluster.Join(ctx, client.Joining{ID: peer.ID, Address: peer.Address}); err != nil {
			return ended(ctx, fmt.Errorf("join the cluster: %w", err))
		}
	}
	for patience := firstPatience; ; patience = min(2*patience, longestPatience) {
		attempt, cancel := context.WithTimeout(ctx, patience)
		err := cluster.Announce(attempt, self)
		late := attempt.Err() != nil
		cancel()
		switch {
		case err == nil:
			c.Log.Info("ready", "node", self.ID)
			return nil
		case ctx.Err() != nil || !late:
			return ended(ctx, fmt.Errorf("announce this node: %w", err))
		}
		c.Log.Warn("this node cannot announce its URL yet, by which clients find it; trying again", "url", self.URL,
			"error", err)
	}
}

// firstPatience and longestPatience are how long a node tries to announce itself before it says that it could not.
const firstPatience, longestPatience = 5 * time.Second, time.Minute

// ended drops an error caused by the end of ctx.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
