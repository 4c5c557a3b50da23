// Package credentials makes and reads the files by which dbqpg's processes know each other.
//
// [Create] makes a directory that holds an authority and a member of each role:
//
//	credentials/
//	  authority/     the private key that makes certificates, and the list of members: keep it apart
//	  nats/          for a NATS server of its own: certificate, nats-server.conf, accounts.conf
//	  learner/       for a learner, which may have the NATS server in its process
//	  coordinator/   for the coordinator's HTTP and its raft transport
//	  actor/ operator/ observer/
//
// A member's directory is all that its machine needs; --credentials names it. In it:
//
//	ca.pem           the authority's certificate, by which the others are known
//	tls.pem          the member's certificate: its role and name as spiffe://dbqpg/ROLE/NAME, and its hosts;
//	                 after it those of authorities between it and ca.pem, if there are any
//	tls-key.pem      the private key to it                                           (secret)
//	nats.nk          the seed of its nkey, by which a NATS server knows it           (secret)
//	accounts.conf    who may do what on a NATS server (nats and learner only)
//
// [Load] reads one, and refuses secrets that others on the machine can read. From it come the identity on NATS
// ([Credentials.Identity], [Credentials.ServerAuth]) and TLS settings for everything else:
//
//	c, err := credentials.Load("credentials/coordinator", log)
//	raft:    tls.NewListener(l, c.Server(proto.RoleCoordinator)), tls.Dialer{Config: c.Client(proto.RoleCoordinator)}
//	HTTP:    http.Server{TLSConfig: c.Server(proto.RoleCoordinator, proto.RoleLearner, proto.RoleOperator)}
//	         role, name, err := credentials.Peer(request.TLS)
//	client:  http.Transport{TLSClientConfig: c.Client(proto.RoleCoordinator)}
//
// Certificates are read again at each handshake, so that renewed ones need no restart. Secrets come from files alone;
// nothing in this package prints them.
package credentials
