// Package storetest runs an S3 server for tests.
package storetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/dbqpg/dbqpg/internal/processtest"
)

// The server's keys.
const (
	AccessKey = "storetest"
	SecretKey = "storetest-secret"
)

// Bucket is the one that there is.
const Bucket = "checkpoints"

// Server is an S3 server in a process of its own: versitygw, with its objects in a directory.
type Server struct {
	// Endpoint is its host:port.
	Endpoint string
	// Root is the directory of the buckets.
	Root string

	t       testing.TB
	process *processtest.Process
}

// Start starts a server with a bucket, or skips the test where the program is not there.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Endpoint: processtest.Address(t), Root: t.TempDir(), t: t}
	s.Run()
	ctx, cancel := context.WithTimeout(processtest.Context(t), time.Minute)
	defer cancel()
	client := s.client()
	for {
		err := client.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{})
		if err == nil {
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("the S3 server: %v", err)
		}
		time.Sleep(20 * time.Millisecond) // until it listens
	}
}

// program finds versitygw.
func program() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("where is this file?")
	}
	built := filepath.Join(filepath.Dir(file), "..", "..", "..", ".deps", "bin", "versitygw")
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	return exec.LookPath("versitygw")
}

// Run starts the process again, with the objects that it had.
func (s *Server) Run() {
	s.t.Helper()
	path, err := program()
	if err != nil {
		s.t.Skip("there is no S3 server here: make s3-server builds one")
	}
	cmd := exec.Command(path, "--port", s.Endpoint, "posix", s.Root)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+AccessKey, "ROOT_SECRET_ACCESS_KEY="+SecretKey)
	s.process = processtest.Start(s.t, cmd)
}

// Kill ends the process with SIGKILL.
func (s *Server) Kill() {
	s.t.Helper()
	s.process.Kill()
}

func (s *Server) client() *minio.Client {
	s.t.Helper()
	client, err := minio.New(s.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, "")})
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// Environment returns the variables that a client needs, in the form of os.Environ.
func (s *Server) Environment() []string {
	return []string{"AWS_ENDPOINT_URL_S3=http://" + s.Endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey}
}

// Setenv sets the environment for the rest of the test.
func (s *Server) Setenv(t *testing.T) {
	for _, entry := range s.Environment() {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
}
