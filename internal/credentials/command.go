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

// options holds the flags that the subcommands share.
type options struct {
	directory string
	days      int
	hosts     []string
	role      string
}

// Command returns the command `credentials`.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "credentials",
		Short: "Make the certificates and keys with which processes authenticate each other",
		Long: `Make the certificates and keys with which processes authenticate each other.

"create" makes a directory with an authority and one member of each role. Copy a member's
directory to its machine, and name it there with --credentials. Keep the directory authority
private: its owner can issue certificates. See docs/security.md.`,
		Example: `  credentials create --out credentials --host learner.example
  learner --env Swimmer-v5 --listen 0.0.0.0:4222 --credentials credentials/learner
  actor --nats tls://learner.example:4222 --credentials credentials/actor`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(createCommand(), addCommand(), renewCommand(), revokeCommand(), listCommand(), tokenCommand(),
		kubernetesCommand())
	return root
}

func (o *options) addDirectory(cmd *cobra.Command, flag, help string) {
	cmd.Flags().StringVar(&o.directory, flag, "credentials", help)
}

func (o *options) addCertificate(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.hosts, "host", nil,
		"name or address under which clients reach the servers, besides localhost; ROLE=NAME for those of one role")
	cmd.Flags().IntVar(&o.days, "days", 365, "validity of the certificates in days")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if last := 365 * authorityYears; o.days < 1 || o.days > last {
			return fmt.Errorf("--days %d: must be from 1 to %d", o.days, last)
		}
		return nil
	}
}

// valid returns the validity of certificates.
func (o *options) valid() time.Duration { return time.Duration(o.days) * day }

func createCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "create", Short: "Make an authority and a member of each role", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := Create(o.directory, o.hosts, o.valid())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Keep %s private. Each member's machine needs only its own directory:\n\n",
				filepath.Join(o.directory, authorityDirectory))
			return d.print(cmd.OutOrStdout())
		},
	}
	o.addDirectory(cmd, "out", "directory to make")
	o.addCertificate(cmd)
	return cmd
}

// directoryCommand returns a command that opens the directory, changes it unless change is nil, and lists it.
func (o *options) directoryCommand(use, short string, args cobra.PositionalArgs,
	change func(d *Directory, names []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, names []string) error {
		d, err := Open(o.directory)
		if err != nil {
			return err
		}
		if change != nil {
			if err := change(d, names); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Copy the new %s to the NATS servers, and restart or reload them, and %s "+
				"to the coordinators.\n\n", accountsFile, revokedFile)
		}
		return d.print(cmd.OutOrStdout())
	}}
	o.addDirectory(cmd, "in", "directory of the credentials")
	return cmd
}

func addCommand() *cobra.Command {
	var o options
	cmd := o.directoryCommand("add NAME --role ROLE", "Make another member, such as actors of another site",
		cobra.ExactArgs(1),
		func(d *Directory, names []string) error {
			return d.Add(names[0], proto.Role(o.role), o.hosts, o.valid())
		})
	cmd.Flags().StringVar(&o.role, "role", "", fmt.Sprintf("one of %v", proto.Roles()))
	o.addCertificate(cmd)
	return cmd
}

func renewCommand() *cobra.Command {
	var o options
	cmd := o.directoryCommand("renew [NAME...]", "Make new certificates, of all members or those named", nil,
		func(d *Directory, names []string) error { return d.Renew(names, o.hosts, o.valid()) })
	o.addCertificate(cmd)
	return cmd
}

func revokeCommand() *cobra.Command {
	return new(options).directoryCommand("revoke NAME", "Revoke a member", cobra.ExactArgs(1),
		func(d *Directory, names []string) error { return d.Revoke(names[0]) })
}

func listCommand() *cobra.Command {
	return new(options).directoryCommand("list", "Show the members and when their certificates expire", cobra.NoArgs,
		nil)
}

func tokenCommand() *cobra.Command {
	var file, role string
	cmd := &cobra.Command{
		Use: "token NAME", Short: "Make a token for a program without a certificate", Args: cobra.ExactArgs(1),
		Long: `Make a token for a program without a certificate, which sends it to the coordinator as
"Authorization: Bearer TOKEN". The token is written to the standard output and nowhere else; its
hash is added to the file that "coordinator serve --tokens" reads. To revoke it, remove its line.`,
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
	var o options
	var prefix, mounted string
	var renew int
	labels := map[string]string{}
	cmd := &cobra.Command{
		Use: "kubernetes --prefix NAME", Short: "Make a Secret for each role in a pod's namespace, and renew " +
			"certificates",
		Args: cobra.NoArgs,
		Long: `Make the Secrets NAME-ROLE, with a member's files each, and NAME-authority, in the namespace of
the pod in which this runs; its service account must be permitted to get, create and update
them. Valid Secrets stay as they are; certificates that expire soon, or are for other hosts, are
renewed. A member whose Secret is missing gets a new key, and the old one is revoked.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkName(prefix); err != nil {
				return fmt.Errorf("--prefix: %w", err)
			}
			if renew < 1 || renew >= o.days {
				return fmt.Errorf("--renew-before %d: must be at least 1, and less than --days %d", renew, o.days)
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
				store: store, prefix: prefix, labels: labels, hosts: o.hosts, valid: o.valid(),
				renew: time.Duration(renew) * day, scratch: filepath.Join(scratch, "members"),
			}
			done, err := members.sync(cmd.Context())
			for _, line := range done {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			if err == nil && len(done) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "all Secrets exist and are valid")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "beginning of the Secrets' names")
	cmd.Flags().IntVar(&renew, "renew-before", 30, "days before expiry from which on certificates are renewed")
	cmd.Flags().StringVar(&mounted, "service-account", serviceAccount, "directory of the pod's token and certificate")
	cmd.Flags().StringToStringVar(&labels, "label", nil, "label of new Secrets, KEY=VALUE; may be repeated")
	o.addCertificate(cmd)
	return cmd
}

// print lists the members.
func (d *Directory) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(table, "DIRECTORY\tROLE\tEXPIRES\tHOSTS")
	for _, m := range d.members {
		_, failed := fmt.Fprintf(table, "%s\t%s\t%s\t%v\n",
			filepath.Join(d.path, m.Name), m.Role, m.Expires.Format(time.DateOnly), m.Hosts)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, table.Flush())
}
