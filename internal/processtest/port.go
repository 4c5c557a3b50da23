package processtest

import (
	"fmt"
	"syscall"
	"testing"
)

// Port returns a port of 127.0.0.1 that is reserved until the end of the test. It is for servers whose port must be
// known before they listen, or that are restarted on the same port; any other server listens on port 0 and reports its
// port.
//
// A port found by listening on port 0 and closing the listener could be taken by another process before the server
// listens on it. Instead, a socket stays bound to the port without listening. The kernel assigns a bound port neither
// to a socket bound to port 0 nor to an outgoing connection, but a server can still listen on it, even repeatedly: both
// sockets have SO_REUSEADDR, which Go sets for every listener. (The option is set after the bind, so that two tests
// cannot share a port.)
func Port(t testing.TB) int {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	address, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return address.(*syscall.SockaddrInet4).Port
}

// Address returns 127.0.0.1 with a [Port].
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", Port(t))
}
