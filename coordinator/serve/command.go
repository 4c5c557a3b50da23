package serve

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/proto"
)

// Command returns "coordinator serve".
func Command() *cobra.Command {
	var c Config
	cmd := &cobra.Command{
		Use:   "serve --data-dir DIR",
		Short: "Run a node of the coordinator",
		Long: `Run a node of the coordinator, until Ctrl-C.

Without --peers and --join it is a single node. For three nodes, start three with the same
--peers; they form a cluster once all are up. A node that was stopped or killed resumes from
its data directory. If it has lost that, start it again with the same command: with an empty
directory it enters the cluster found through --peers or --join as a new node. If most nodes
have lost theirs, no new cluster forms: see --restore and docs/coordinator.md.

Only this machine can reach a node unless --http and --raft say otherwise; that requires
--credentials (docs/security.md).`,
		Example: `  coordinator serve --data-dir data
  coordinator serve --node-id n1 --data-dir data1 --credentials coordinator1 \
      --http 10.0.0.1:7070 --raft 10.0.0.1:7071 \
      --peers n1=10.0.0.1:7071,n2=10.0.0.2:7071,n3=10.0.0.3:7071
  coordinator serve --node-id n4 --data-dir data4 --credentials coordinator4 \
      --http 10.0.0.4:7070 --raft 10.0.0.4:7071 --join https://10.0.0.1:7070`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.read(); err != nil {
				return err
			}
			return Run(cmd.Context(), c)
		},
	}
	c.define(cmd.Flags())
	return cmd
}

func (c *Config) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&c.DataDir, "data-dir", "", "data directory of this node")
	flags.StringVar(&c.ID, "node-id", "n1", "this node's name, unique in the cluster")
	flags.StringVar(&c.HTTP, "http", "127.0.0.1:7070", "host:port on which to serve requests; port 0 picks a free one")
	flags.StringVar(&c.Raft, "raft", "127.0.0.1:7071", "host:port that the other nodes connect to")
	flags.StringVar(&c.peers, "peers", "",
		"all nodes of a new cluster with their --raft addresses, n1=host:port,n2=host:port,n3=host:port")
	flags.StringVar(&c.Join, "join", "", "URL of a node of the cluster to join")
	flags.StringVar(&c.Restore, "restore", "",
		"backup (from \"coordinator backup\") to start a new single node from; - reads standard input")
	flags.StringVar(&c.AdvertiseURL, "advertise-url", "",
		"URL at which others reach --http, if it differs, as when that is 0.0.0.0")
	flags.StringVar(&c.AdvertiseRaft, "advertise-raft", "",
		"host:port at which others reach --raft, if it differs; a cluster adds no node that does not answer there")
	flags.StringVar(&c.Checkpoints, "checkpoints", os.Getenv("DBQPG_CHECKPOINTS"),
		"the workers' store, a directory or s3://bucket/prefix, for curves and files (default $DBQPG_CHECKPOINTS)")
	flags.StringVar(&c.Play, "play", "",
		"URL of a \"learner dashboard\" on that store, which plays policies for the pages (docs/dashboard.md)")
	flags.StringVar(&c.Metrics, "metrics-listen", "", "host:port to serve Prometheus metrics, health and readiness on")
	flags.StringVar(&c.credentials, "credentials", "",
		"directory of this node's keys and certificates, from \"coordinator credentials create\"")
	flags.StringVar((*string)(&c.Tokens), "tokens", "",
		"file of tokens, from \"coordinator credentials token\", in place of certificates; requires --credentials")
	flags.StringVar(&c.logLevel, "log-level", "info", "lowest level to log: debug, info, warn or error")
	flags.StringVar(&c.logFormat, "log-format", observe.Text, "log format: text (key=value) or json (objects)")
	flags.BoolVar(&c.insecure, "insecure-listen", false,
		"accept other machines without credentials, on a trusted network")
}

// read parses and checks the flags.
func (c *Config) read() (err error) {
	if c.Peers, err = raftnode.ParsePeers(c.peers); err != nil {
		return err
	}
	if err := errors.Join(c.check(), observe.CheckListen("--metrics-listen", c.Metrics, false)); err != nil {
		return err
	}
	if c.Log, err = observe.NewLogger(os.Stderr, c.logFormat, c.logLevel); err != nil {
		return err
	}
	switch {
	case c.credentials != "":
		if c.Credentials, err = credentials.Load(c.credentials, c.Log); err == nil {
			err = c.Credentials.Require(proto.RoleCoordinator)
		}
		if err != nil {
			return fmt.Errorf("--credentials: %w", err)
		}
	case c.Tokens != "":
		return errors.New("--tokens requires --credentials: without TLS, tokens would cross the network unencrypted")
	case !c.insecure:
		return requireLocal(c.HTTP, c.Raft)
	}
	return nil
}

// check returns an error if the settings are invalid.
func (c *Config) check() error {
	if c.Join != "" && len(c.Peers) > 0 {
		return errors.New("--join and --peers: join a cluster or form one, not both")
	}
	if c.DataDir == "" {
		return errors.New("--data-dir is required: the directory of this node's records")
	}
	return errors.Join(checkURL("--join", c.Join), checkURL("--advertise-url", c.AdvertiseURL),
		checkURL("--play", c.Play))
}

// checkURL returns an error unless text is a node's URL or "".
func checkURL(flag, text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
		return fmt.Errorf("%s %q: must be a URL such as http://127.0.0.1:7070", flag, text)
	}
	if err := raftnode.CheckHost(u.Hostname()); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// requireLocal returns an error for addresses that other machines can reach.
func requireLocal(addresses ...string) error {
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("%q: must be host:port, such as 127.0.0.1:7070", address)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("%s can be reached from other machines, and anyone there could control this node: "+
				"give --credentials DIR, or --insecure-listen if the network is trusted", address)
		}
	}
	return nil
}
