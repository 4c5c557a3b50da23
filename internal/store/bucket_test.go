package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/store/storetest"
)

const bucket = store.Scheme + storetest.Bucket

func TestBucket(t *testing.T) {
	server := storetest.Start(t)
	server.Setenv(t)
	for _, name := range []string{bucket + "/", bucket + "/some/prefix"} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimRight(name, "/"); s.String() != want {
				t.Errorf("called %q, want %q", s, want)
			}
			conform(t, s)
		})
	}
}

// More than a page of a listing.
func TestBucketListsAll(t *testing.T) {
	server := storetest.Start(t)
	server.Setenv(t)
	s, err := store.Open(t.Context(), bucket+"/p")
	if err != nil {
		t.Fatal(err)
	}
	const n = 1003 // a page holds 1000
	directory := filepath.Join(server.Root, storetest.Bucket, "p", "run")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(directory, fmt.Sprintf("%04d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := store.List(t.Context(), s, "run"); err != nil || len(keys) != n || keys[n-1] != "run/1002" {
		t.Errorf("%d keys, %v; want %d", len(keys), err, n)
	}
}

// What is wrong is said, without the secret.
func TestBucketsThatCannotBe(t *testing.T) {
	server := storetest.Start(t)
	for _, c := range []struct{ name, variable, value, want string }{
		{store.Scheme + "other", "", "", "there is no bucket other at " + server.Endpoint},
		{bucket, "AWS_SECRET_ACCESS_KEY", "storetest-wrong", bucket + " at " + server.Endpoint},
		{bucket, "AWS_ENDPOINT_URL_S3", "http://" + processtest.Address(t), "connection refused"},
	} {
		server.Setenv(t)
		if c.variable != "" {
			t.Setenv(c.variable, c.value)
		}
		_, err := store.Open(t.Context(), c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "storetest-") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A server that goes away is an error, in time, and no loss; one that breaks off an upload has not got it.
func TestBucketServerLost(t *testing.T) {
	server := storetest.Start(t)
	server.Setenv(t)
	s, err := store.Open(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "run/a", []byte("there")); err != nil {
		t.Fatal(err)
	}
	cut := cuttingProxy(t, server.Endpoint, 100_000)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+cut)
	through, err := store.Open(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"run/a", "run/b"} {
		if err := through.Put(t.Context(), key, make([]byte, 1_000_000)); err == nil {
			t.Errorf("%s: an upload that was broken off succeeded", key)
		}
	}
	if data, err := s.Get(t.Context(), "run/a"); err != nil || string(data) != "there" {
		t.Errorf("after an upload over it that was broken off: %d bytes, %v", len(data), err)
	}
	if _, err := s.Get(t.Context(), "run/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after an upload that was broken off: %v", err)
	}
	if keys, err := store.List(t.Context(), s, "run"); err != nil || len(keys) != 1 {
		t.Errorf("keys %q, %v", keys, err)
	}

	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Get(ctx, "run/a"); err == nil || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		t.Errorf("without a server: %v", err)
	}
	if err := s.Put(ctx, "run/a", nil); err == nil || ctx.Err() != nil {
		t.Errorf("without a server: %v", err)
	}
}

// cuttingProxy passes on so many bytes of each connection's requests, then breaks it.
func cuttingProxy(t *testing.T, to string, bytes int64) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(client, to, bytes)
		}
	}()
	return listener.Addr().String()
}

func pass(client net.Conn, to string, bytes int64) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(client, server) }() // until one of them is closed
	_, _ = io.CopyN(server, client, bytes)
}
