package credentials

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/proto"
)

const day = 24 * time.Hour

// maxDays is the validity of an authority.
const maxDays = 365 * authorityYears

// command contains what the subcommands share.
type command struct {
	directory string
	days      int
	hosts     []string
}

// Command returns the command line of `credentials`: create, add, renew, revoke, list, token and kubernetes.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "credentials",
		Short: "Make the certificates and keys with which processes authenticate each other",
		Long: `Make the certificates and keys by which processes know each other.

"create" makes a directory with an authority and one member of each role. Take a member's
directory to its machine, and give it there as --credentials. Keep the directory authority
to yourself: whoever has it can make more. docs/security.md says more.`,
		Example: `  credentials create --out credentials --host learner.example
  learner --env Swimmer-v5 --listen 0.0.0.0:4222 --credentials credentials/learner
  actor --nats tls://learner.example:4222 --credentials credentials/actor`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(createCommand(), addCommand(), renewCommand(), revokeCommand(), listCommand(), tokenCommand(), kubernetesCommand())
	return root
}

func (c *command) flags(cmd *cobra.Command, flag, help string) {
	cmd.Flags().StringVar(&c.directory, flag, "credentials", help)
}

func (c *command) certificateFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&c.hosts, "host", nil, "name or address under which clients reach the servers, besides localhost; may be repeated")
	cmd.Flags().IntVar(&c.days, "days", 365, "validity of the certificates in days")
}

func (c *command) valid() (time.Duration, error) {
	if c.days < 1 || c.days > maxDays {
		return 0, fmt.Errorf("--days %d: must be from 1 to %d", c.days, maxDays)
	}
	return time.Duration(c.days) * day, nil
}

func createCommand() *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use: "create", Short: "Make an authority and a member of each role", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			valid, err := c.valid()
			if err != nil {
				return err
			}
			d, err := Create(c.directory, c.hosts, valid)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Keep %s to yourself. Each member's machine needs only its own directory:\n\n",
				filepath.Join(c.directory, authorityDirectory))
			return d.print(cmd.OutOrStdout())
		},
	}
	c.flags(cmd, "out", "directory to make")
	c.certificateFlags(cmd)
	return cmd
}

func addCommand() *cobra.Command {
	var c command
	var role string
	cmd := &cobra.Command{
		Use: "add NAME --role ROLE", Short: "Make another member, such as actors of another site", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			valid, err := c.valid()
			if err != nil {
				return err
			}
			return c.change(cmd.OutOrStdout(), func(d *Directory) error { return d.Add(args[0], proto.Role(role), c.hosts, valid) })
		},
	}
	cmd.Flags().StringVar(&role, "role", "", fmt.Sprintf("one of %v", proto.Roles()))
	c.flags(cmd, "in", "directory of the credentials")
	c.certificateFlags(cmd)
	return cmd
}

func renewCommand() *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use: "renew [NAME...]", Short: "Make new certificates, of all members or those named",
		RunE: func(cmd *cobra.Command, args []string) error {
			valid, err := c.valid()
			if err != nil {
				return err
			}
			return c.change(cmd.OutOrStdout(), func(d *Directory) error { return d.Renew(args, c.hosts, valid) })
		},
	}
	c.flags(cmd, "in", "directory of the credentials")
	c.certificateFlags(cmd)
	return cmd
}

func revokeCommand() *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a member's key", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd.OutOrStdout(), func(d *Directory) error { return d.Revoke(args[0]) })
		},
	}
	c.flags(cmd, "in", "directory of the credentials")
	return cmd
}

func tokenCommand() *cobra.Command {
	var file, role string
	cmd := &cobra.Command{
		Use: "token NAME", Short: "Make a token for a program without a certificate", Args: cobra.ExactArgs(1),
		Long: `Make a token for a program without a certificate, which it sends to the coordinator as
"Authorization: Bearer TOKEN". It is written to the standard output and nowhere else; its hash
is added to the file that "coordinator serve --tokens" reads. To revoke it, remove its line.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := Tokens(file).Add(args[0], proto.Role(role))
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "file", "tokens", "file to add its hash to")
	cmd.Flags().StringVar(&role, "role", string(proto.RoleObserver), "operator or observer")
	return cmd
}

func kubernetesCommand() *cobra.Command {
	var c command
	var prefix, mounted string
	var renew int
	labels := map[string]string{}
	cmd := &cobra.Command{
		Use: "kubernetes --prefix NAME", Short: "Make a Secret for each role in a pod's namespace, and renew what expires soon", Args: cobra.NoArgs,
		Long: `Make the Secrets NAME-ROLE, with a member's files each, and NAME-authority, in the namespace of
the pod in which this runs; its service account must be permitted to get, create and update
them. What is there and valid is left as it is; certificates that expire soon, or are for other
hosts, are renewed. A member whose Secret is missing gets a new key, and the old one is revoked.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			valid, err := c.valid()
			if err != nil {
				return err
			}
			if err := checkName(prefix); err != nil {
				return fmt.Errorf("--prefix: %w", err)
			}
			if renew < 1 || renew >= c.days {
				return fmt.Errorf("--renew-before %d: must be at least 1, and less than --days %d", renew, c.days)
			}
			store, err := inCluster(mounted, os.Getenv)
			if err != nil {
				return err
			}
			scratch, err := os.MkdirTemp("", "credentials-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(scratch)
			members := clusterMembers{
				store: store, prefix: prefix, labels: labels, hosts: c.hosts, valid: valid, renew: time.Duration(renew) * day,
				scratch: filepath.Join(scratch, "members"),
			}
			done, err := members.sync(cmd.Context())
			for _, line := range done {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			if err == nil && len(done) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "all is there, and valid")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "beginning of the Secrets' names")
	cmd.Flags().IntVar(&renew, "renew-before", 30, "days before expiry from which on certificates are renewed")
	cmd.Flags().StringVar(&mounted, "service-account", serviceAccount, "directory of the pod's token and certificate")
	cmd.Flags().StringToStringVar(&labels, "label", nil, "label of new Secrets, KEY=VALUE; may be repeated")
	c.certificateFlags(cmd)
	return cmd
}

func listCommand() *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use: "list", Short: "Show the members and when their certificates expire", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := Open(c.directory)
			if err != nil {
				return err
			}
			return d.print(cmd.OutOrStdout())
		},
	}
	c.flags(cmd, "in", "directory of the credentials")
	return cmd
}

// change opens the directory, changes it and lists the result.
func (c *command) change(out io.Writer, change func(*Directory) error) error {
	d, err := Open(c.directory)
	if err != nil {
		return err
	}
	if err := change(d); err != nil {
		return err
	}
	fmt.Fprintf(out, "This takes effect once the servers have the new %s (NATS; restart or reload) and %s (coordinators): copy these to them.\n\n", accountsFile, revokedFile)
	return d.print(out)
}

// print lists the members.
func (d *Directory) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(table, "DIRECTORY\tROLE\tEXPIRES\tHOSTS")
	for _, m := range d.members {
		_, failed := fmt.Fprintf(table, "%s\t%s\t%s\t%v\n", filepath.Join(d.path, m.Name), m.Role, m.Expires.Format(time.DateOnly), m.Hosts)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, table.Flush())
}
