package serve

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/proto"
)

// options are the command's flags: a node's settings, and flags from which some of them are read.
type options struct {
	Config
	peers, credentials  string
	logLevel, logFormat string
	insecure            bool
}

// Command returns "coordinator serve".
func Command() *cobra.Command {
	var o options
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
			if err := o.read(); err != nil {
				return err
			}
			return Run(cmd.Context(), o.Config)
		},
	}
	o.define(cmd.Flags())
	return cmd
}

func (o *options) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&o.DataDir, "data-dir", "", "data directory of this node")
	flags.StringVar(&o.ID, "node-id", "n1", "this node's name, unique in the cluster")
	flags.StringVar(&o.HTTP, "http", "127.0.0.1:7070", "host:port on which to serve requests; port 0 picks a free one")
	flags.StringVar(&o.Raft, "raft", "127.0.0.1:7071", "host:port that the other nodes connect to")
	flags.StringVar(&o.peers, "peers", "", "all nodes of a new cluster with their --raft addresses, n1=host:port,n2=host:port,n3=host:port")
	flags.StringVar(&o.Join, "join", "", "URL of a node of the cluster to join")
	flags.StringVar(&o.Restore, "restore", "", "backup (of \"coordinator backup\") from which to start a new single node; - reads standard input")
	flags.StringVar(&o.AdvertiseURL, "advertise-url", "", "URL at which others reach --http, if it differs, as when that is 0.0.0.0")
	flags.StringVar(&o.AdvertiseRaft, "advertise-raft", "", "host:port at which others reach --raft, if it differs, as when that is 0.0.0.0; a cluster takes in no node that does not answer there")
	flags.StringVar(&o.Checkpoints, "checkpoints", os.Getenv("DBQPG_CHECKPOINTS"), "the workers' store, for the curves and files on the browser's pages: a shared directory, or s3://bucket/prefix; also DBQPG_CHECKPOINTS")
	flags.StringVar(&o.Play, "play", "", "URL of a \"learner dashboard\" on that store, which plays the runs' policies for the browser's pages (docs/watch.md)")
	flags.StringVar(&o.Metrics, "metrics-listen", "", "host:port to serve Prometheus metrics, health and readiness on")
	flags.StringVar(&o.credentials, "credentials", "", "directory of this node's keys and certificates, from \"coordinator credentials create\"")
	flags.StringVar((*string)(&o.Tokens), "tokens", "", "file of tokens, from \"coordinator credentials token\", for programs without a certificate; requires --credentials")
	flags.StringVar(&o.logLevel, "log-level", "info", "lowest level to log: debug, info, warn or error")
	flags.StringVar(&o.logFormat, "log-format", observe.Text, "log format: text (key=value pairs) or json (one object per line)")
	flags.BoolVar(&o.insecure, "insecure-listen", false, "accept other machines without credentials, on a trusted network")
}

// read completes the settings from flags given in another form, and rejects invalid ones.
func (o *options) read() (err error) {
	if o.Peers, err = raftnode.ParsePeers(o.peers); err != nil {
		return err
	}
	if err := errors.Join(o.check(), observe.CheckListen("--metrics-listen", o.Metrics, false)); err != nil {
		return err
	}
	if o.Log, err = observe.NewLogger(os.Stderr, o.logFormat, o.logLevel); err != nil {
		return err
	}
	switch {
	case o.credentials != "":
		if o.Credentials, err = credentials.Load(o.credentials, o.Log); err == nil {
			err = o.Credentials.Require(proto.RoleCoordinator)
		}
		if err != nil {
			return fmt.Errorf("--credentials: %w", err)
		}
	case o.Tokens != "":
		return errors.New("--tokens: they would cross the network in the open; give --credentials too")
	case !o.insecure:
		return requireLocal(o.HTTP, o.Raft)
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
			return fmt.Errorf("%s can be reached from other machines, and anyone there could control this node: give --credentials DIR, "+
				"or --insecure-listen if the network is trusted", address)
		}
	}
	return nil
}
