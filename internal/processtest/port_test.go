package processtest

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// leave leaves the kernel one port to choose from.
func leave(port int) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		set := func(socket uintptr) {
			err = unix.SetsockoptInt(int(socket), unix.SOL_IP, unix.IP_LOCAL_PORT_RANGE, port<<16|port)
		}
		if failed := c.Control(set); failed != nil {
			return failed
		}
		return err
	}
}

// A port that is held can be listened on again and again, by one server at a time, and the kernel gives it to nobody
// who asks for any.
func TestPort(t *testing.T) {
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	port := Port(t)
	address := fmt.Sprint("127.0.0.1:", port)
	listener, dialer := net.ListenConfig{Control: leave(port)}, net.Dialer{Control: leave(port)}
	for range 3 {
		server, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := net.Listen("tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second listener: %v, %v", second, err)
		}
		client, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted.Close() // before the client: what is left of the connection stays with the port for a minute
		client.Close()
		server.Close()
		if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("without a server: %v", err)
		}
		for _, host := range []string{"127.0.0.1", "0.0.0.0", ""} {
			if other, err := listener.Listen(t.Context(), "tcp", host+":0"); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("a listener at %q that asks for any port: %v, %v", host, other, err)
			}
		}
		if other, err := dialer.DialContext(t.Context(), "tcp", elsewhere.Addr().String()); !errors.Is(err,
			syscall.EADDRNOTAVAIL) {
			t.Errorf("an outgoing connection: %v, %v", other, err)
		}
	}
}

// A port is held for no longer than its test.
func TestPortIsGivenBack(t *testing.T) {
	var port int
	t.Run("holder", func(t *testing.T) { port = Port(t) })
	listener := net.ListenConfig{Control: leave(port)}
	l, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil || l.Addr().(*net.TCPAddr).Port != port {
		t.Fatal(l, err)
	}
	l.Close()
}
