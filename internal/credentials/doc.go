// Package credentials creates and reads the files with which dbqpg's processes authenticate each other.
//
// [Create] makes a directory with an authority and a member of each role:
//
//	credentials/
//	  authority/     the private key that signs certificates, and the list of members: keep it apart
//	  nats/          for a separate NATS server: certificate, nats-server.conf, accounts.conf
//	  learner/       for a learner, which may have the NATS server in its process
//	  coordinator/   for the coordinator's HTTP and its raft transport
//	  actor/ operator/ observer/
//
// A member's machine needs only its own directory, which --credentials names. It contains:
//
//	ca.pem           the authority's certificate, which verifies those of others
//	tls.pem          the member's certificate: its role and name as spiffe://dbqpg/ROLE/NAME, by which coordinators
//	                 and NATS servers know it, and its hosts; followed by those of intermediate authorities, if any
//	tls-key.pem      its private key                                                 (secret)
//	accounts.conf    users and permissions of a NATS server (nats and learner only)
//	revoked.json     how often names were revoked (coordinator only)
//
// [Load] reads one, and rejects secrets that others on the machine can read. It gives the identity on NATS
// ([Credentials.Identity], [Credentials.ServerAuth]) and TLS settings for everything else:
//
//	c, err := credentials.Load("credentials/coordinator", log)
//	raft:    tls.NewListener(l, c.Server(proto.RoleCoordinator)), tls.Dialer{Config: c.Client(proto.RoleCoordinator)}
//	HTTP:    http.Server{TLSConfig: c.Server(proto.RoleCoordinator, proto.RoleLearner, proto.RoleOperator)}
//	         role, name, err := credentials.Peer(request.TLS)
//	client:  http.Transport{TLSClientConfig: c.Client(proto.RoleCoordinator)}
//
// Certificates are read again at each handshake, so that renewed ones need no restart. Secrets come only from files;
// nothing in this package prints them.
package credentials
