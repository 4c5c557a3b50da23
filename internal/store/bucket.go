package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// attempts is how often a request is tried before it fails. Callers retry later.
const attempts = 3

// Bucket is a store in a bucket of an S3-compatible server. A single request writes an object, so no parts can be left
// over, and the server verifies the checksum sent with it.
type Bucket struct {
	client         *minio.Client
	bucket, prefix string
}

// OpenBucket returns the store under a prefix of a bucket, s3://bucket/prefix. Everything else comes from where other
// tools expect it, and nowhere else: the server from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (default: Amazon's), the
// region from AWS_REGION, and the keys from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the file
// AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, or the machine's role.
func OpenBucket(ctx context.Context, name string) (*Bucket, error) {
	b, err := newBucket(name)
	if err != nil {
		return nil, err
	}
	endpoint := b.client.EndpointURL().Host
	switch there, err := b.client.BucketExists(ctx, b.bucket); {
	case err != nil:
		return nil, fmt.Errorf("%s at %s: %w", name, endpoint, err)
	case !there:
		return nil, fmt.Errorf("%s: there is no bucket %s at %s: create it first", name, b.bucket, endpoint)
	}
	return b, nil
}

// newBucket is [OpenBucket] without a request to the server.
func newBucket(name string) (*Bucket, error) {
	bucket, prefix, err := parseBucket(name)
	if err != nil {
		return nil, err
	}
	endpoint, secure, err := endpointOf()
	if err != nil {
		return nil, err
	}
	keys := credentials.NewChainCredentials(providers())
	client, err := minio.New(endpoint, &minio.Options{
		Creds: keys, Secure: secure, Region: firstOf("AWS_REGION", "AWS_DEFAULT_REGION"), MaxRetries: attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if value, err := keys.GetWithContext(client.CredContext()); err != nil || value.AccessKeyID == "" {
		return nil, fmt.Errorf("%s: no keys are given: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "+
			"or put them into the file AWS_SHARED_CREDENTIALS_FILE", name)
	}
	return &Bucket{client, bucket, prefix}, nil
}

// parseBucket splits s3://bucket/prefix. A prefix that is not empty ends in a slash.
func parseBucket(name string) (bucket, prefix string, err error) {
	bucket, prefix, _ = strings.Cut(strings.TrimPrefix(name, Scheme), "/")
	if strings.Contains(bucket, "@") { // and is not repeated here
		return "", "", errors.New("s3://: keys do not belong in the name, where others see them: " +
			"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	prefix = strings.Trim(prefix, "/")
	if bucket == "" || strings.ContainsAny(bucket, "?#:") || prefix != "" && checkKey(prefix) != nil {
		return "", "", fmt.Errorf("%q: must be like s3://bucket/prefix", name)
	}
	if prefix != "" {
		prefix += "/"
	}
	return bucket, prefix, nil
}

// firstOf returns the value of the first environment variable that is set.
func firstOf(names ...string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}

// endpointOf returns the server's host:port, and whether it uses TLS.
func endpointOf() (endpoint string, secure bool, err error) {
	text := firstOf("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	if text == "" {
		return "s3.amazonaws.com", true, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.Trim(u.Path, "/") != "" || u.User != nil {
		return "", false, errors.New("AWS_ENDPOINT_URL in the environment: must be like https://s3.example.org")
	}
	return u.Host, u.Scheme == "https", nil
}

// providers returns the possible sources of keys. The machine's role is queried only if the environment announces one
// or the server is Amazon's: elsewhere the query would time out.
func providers() []credentials.Provider {
	all := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if firstOf("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") == "" ||
		firstOf("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
			"AWS_CONTAINER_CREDENTIALS_FULL_URI") != "" {
		all = append(all, &credentials.IAM{})
	}
	return all
}

func (b *Bucket) String() string { return Scheme + strings.TrimSuffix(b.bucket+"/"+b.prefix, "/") }

// Put writes an object.
func (b *Bucket) Put(ctx context.Context, key string, data []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	options := minio.PutObjectOptions{
		DisableMultipart: true, SendContentMd5: true, ContentType: "application/octet-stream",
	}
	_, err := b.client.PutObject(ctx, b.bucket, b.prefix+key, bytes.NewReader(data), int64(len(data)), options)
	if err != nil {
		return fmt.Errorf("put %s in %v: %w", key, b, err)
	}
	return nil
}

// Append writes the whole object, since objects cannot grow.
func (b *Bucket) Append(ctx context.Context, key string, data []byte, _ int) error {
	return b.Put(ctx, key, data)
}

// Get reads an object.
func (b *Bucket) Get(ctx context.Context, key string) ([]byte, error) { return b.GetFrom(ctx, key, 0) }

// GetFrom reads the end of an object.
func (b *Bucket) GetFrom(ctx context.Context, key string, offset int64) ([]byte, error) {
	o, err := b.Open(ctx, key, offset)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return readAll(o, 0)
}

// Open asks for an object, which the first Read begins to receive.
func (b *Bucket) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	var options minio.GetObjectOptions
	if offset > 0 {
		if err := options.SetRange(offset, 0); err != nil {
			return nil, err
		}
	}
	o, err := b.client.GetObject(ctx, b.bucket, b.prefix+key, options)
	if err != nil {
		return nil, fmt.Errorf("get %s from %v: %w", key, b, err)
	}
	return &object{o, b, key}, nil
}

// object is an object being read.
type object struct {
	*minio.Object
	bucket *Bucket
	key    string
}

// Read implements [io.Reader].
func (o *object) Read(p []byte) (int, error) {
	n, err := o.Object.Read(p)
	switch code := minio.ToErrorResponse(err).Code; {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case code == minio.InvalidRange: // there is nothing after the offset
		return 0, io.EOF
	case code == minio.NoSuchKey:
		err = fs.ErrNotExist
	}
	return n, fmt.Errorf("get %s from %v: %w", o.key, o.bucket, err)
}

// Files asks for the objects under a prefix.
func (b *Bucket) Files(ctx context.Context, directory string) ([]File, error) {
	if err := checkDirectory(directory); err != nil {
		return nil, err
	}
	prefix := b.prefix
	if directory != "." {
		prefix += directory + "/"
	}
	var files []File
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the listing continues in the background until then
	for object := range b.client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			return nil, fmt.Errorf("list %s in %v: %w", directory, b, object.Err)
		}
		if key := strings.TrimPrefix(object.Key, b.prefix); checkKey(key) == nil {
			files = append(files, File{key, object.Size, object.LastModified})
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Key, b.Key) })
	return files, nil
}

// Remove removes an object.
func (b *Bucket) Remove(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := b.client.RemoveObject(ctx, b.bucket, b.prefix+key, minio.RemoveObjectOptions{}); err != nil {
		return fmt.Errorf("remove %s from %v: %w", key, b, err)
	}
	return nil
}
