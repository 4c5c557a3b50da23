package bus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrNotFound reports a key without a value, or a bucket that does not exist.
	ErrNotFound = errors.New("no such key")
	// ErrConflict reports a compare-and-set that found another revision.
	ErrConflict = errors.New("somebody else wrote the key")
	// ErrNoStore reports a server without JetStream.
	ErrNoStore = errors.New("the NATS server has no JetStream: start it with -js")
)

// replicas is the number of servers in a cluster that keep a bucket, so that any one may be lost.
const replicas = 3

// A server's error codes for a cluster with too few servers for that, and for replicas without a cluster.
const (
	codeNoPeers      jetstream.ErrorCode = 10005
	codeNotClustered jetstream.ErrorCode = 10074
)

// Store is a bucket of keys whose latest values the server keeps in memory; a cluster keeps them on three servers.
type Store struct {
	jetstream jetstream.JetStream
	bucket    string
	conn      *Conn
	kv        atomic.Pointer[jetstream.KeyValue] // the bucket as last looked up
}

// Store returns a bucket, which the first Put creates.
func (c *Conn) Store(bucket string) (*Store, error) {
	var js jetstream.JetStream
	var err error
	if c.storeAPI == "" {
		js, err = jetstream.New(c.nats)
	} else {
		js, err = jetstream.NewWithAPIPrefix(c.nats, c.storeAPI)
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", bucket, err)
	}
	return &Store{jetstream: js, bucket: bucket, conn: c}, nil
}

// Get returns a key's value and its revision, or ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	ctx, cancel := s.conn.during(ctx)
	defer cancel()
	// Looking up the bucket takes as long as reading the key, and a thousand actors read at the same moment.
	if kv := s.kv.Load(); kv != nil {
		if entry, err := (*kv).Get(ctx, key); err == nil {
			return entry.Value(), entry.Revision(), nil
		}
		s.kv.Store(nil) // the bucket may have been recreated
	}
	kv, err := s.jetstream.KeyValue(ctx, s.bucket)
	if err != nil {
		return nil, 0, s.explain(ctx, "read", key, err)
	}
	entry, err := kv.Get(ctx, key)
	if err != nil {
		return nil, 0, s.explain(ctx, "read", key, err)
	}
	s.kv.Store(&kv)
	return entry.Value(), entry.Revision(), nil
}

// Put sets a key's value if its revision is still the given one; 0 means that the key has
// no value. It returns the new revision, or ErrConflict.
func (s *Store) Put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := s.conn.during(ctx)
	defer cancel()
	kv, err := s.jetstream.KeyValue(ctx, s.bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = s.create(ctx)
	}
	if err != nil {
		return 0, s.explain(ctx, "write", key, err)
	}
	if revision == 0 {
		revision, err = kv.Create(ctx, key, value)
	} else {
		revision, err = kv.Update(ctx, key, value, revision)
	}
	if err != nil {
		return 0, s.explain(ctx, "write", key, err)
	}
	return revision, nil
}

// Delete removes a key and its value if its revision is still the given one, or else returns ErrConflict.
func (s *Store) Delete(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := s.conn.during(ctx)
	defer cancel()
	kv, err := s.jetstream.KeyValue(ctx, s.bucket)
	if err == nil {
		err = kv.Delete(ctx, key, jetstream.LastRevision(revision))
	}
	if err != nil {
		return s.explain(ctx, "delete", key, err)
	}
	return nil
}

// create creates the bucket. A cluster that has fewer than three servers at the moment keeps it on one.
func (s *Store) create(ctx context.Context) (jetstream.KeyValue, error) {
	config := jetstream.KeyValueConfig{
		Bucket:      s.bucket,
		Description: "the current policy of each run",
		Storage:     jetstream.MemoryStorage,
		History:     1,
	}
	if s.conn.nats.ConnectedClusterName() != "" {
		config.Replicas = replicas
	}
	kv, err := s.jetstream.CreateKeyValue(ctx, config)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && (refused.ErrorCode == codeNoPeers || refused.ErrorCode == codeNotClustered) {
		s.conn.log.Warn("the NATS cluster keeps policies on one server only: if it is lost, runs wait until it is back",
			"error", err)
		config.Replicas = 1
		kv, err = s.jetstream.CreateKeyValue(ctx, config)
	}
	return kv, err
}

// explain maps the library's errors to this package's, with advice about a server without JetStream.
func (s *Store) explain(ctx context.Context, verb, key string, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), ErrDisconnected):
		err = ErrDisconnected
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrBucketNotFound):
		err = ErrNotFound
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		err = ErrConflict
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		err = ErrNoStore
	default:
		err = translate(err)
	}
	return fmt.Errorf("%s %s in store %s: %w", verb, key, s.bucket, err)
}
