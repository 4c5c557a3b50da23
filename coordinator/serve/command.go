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

// options are the command's flags: a node's settings, and what some of them are read from.
type options struct {
	Config
	peers, credentials  string
	logLevel, logFormat string
	insecure            bool
}

// Command is "coordinator serve".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve --data-dir DIR",
		Short: "Run a node of the coordinator",
		Long: `Run a node of the coordinator, until Ctrl-C.

Without --peers and --join it is alone. For three nodes, start three with the same --peers;
they form a cluster once all are there. A node that was stopped or killed goes on with its
data directory. One that has lost it is started again by the same command: with an empty
directory, it enters the cluster that --peers or --join know of, as one that was never there.
If most have lost theirs, nothing is begun anew: see --restore and docs/coordinator.md.

Nothing but this machine can reach a node unless --http and --raft say so; then it wants
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
	flags.StringVar(&o.DataDir, "data-dir", "", "directory of this node's records")
	flags.StringVar(&o.ID, "node-id", "n1", "this node's name, unique in the cluster")
	flags.StringVar(&o.HTTP, "http", "127.0.0.1:7070", "host:port to take requests at; port 0 is a free one")
	flags.StringVar(&o.Raft, "raft", "127.0.0.1:7071", "host:port that the other nodes connect to")
	flags.StringVar(&o.peers, "peers", "", "all nodes that begin the cluster, n1=host:port,n2=host:port,n3=host:port, as --raft of each")
	flags.StringVar(&o.Join, "join", "", "URL of a node of the cluster to join")
	flags.StringVar(&o.Restore, "restore", "", "file of \"coordinator backup\" that a new node, which is alone, begins with; - is the standard input")
	flags.StringVar(&o.AdvertiseURL, "advertise-url", "", "URL that others reach --http at, where it differs")
	flags.StringVar(&o.AdvertiseRaft, "advertise-raft", "", "host:port that others reach --raft at, where it differs")
	flags.StringVar(&o.NATS, "nats", "", "URL of a NATS server to answer requests on, too")
	flags.StringVar(&o.Metrics, "metrics-listen", "", "host:port to serve Prometheus metrics, health and readiness on")
	flags.StringVar(&o.credentials, "credentials", "", "directory of this node's keys and certificates, from \"coordinator credentials create\"")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&o.logFormat, "log-format", observe.Text, "lines of key=value, or with json an object a line")
	flags.BoolVar(&o.insecure, "insecure-listen", false, "let other machines in without credentials: the network is trusted")
}

// read completes the settings with what is given in another form, and refuses those that cannot be.
func (o *options) read() (err error) {
	if o.Peers, err = raftnode.ParsePeers(o.peers); err != nil {
		return err
	}
	if err := errors.Join(o.check(), observe.CheckListen(o.Metrics, false)); err != nil {
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
	case !o.insecure:
		return requireLocal(o.HTTP, o.Raft)
	}
	return nil
}

// requireLocal refuses addresses that other machines reach.
func requireLocal(addresses ...string) error {
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("%q: must be host:port, such as 127.0.0.1:7070", address)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("%s can be reached from other machines, and whoever does could command this node: give --credentials DIR, "+
				"or --insecure-listen if the network is trusted", address)
		}
	}
	return nil
}
