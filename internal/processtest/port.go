package processtest

import (
	"fmt"
	"syscall"
	"testing"
)

// Port returns a port of 127.0.0.1 that is the test's until it ends. It is for a server whose port others must know before it
// listens, or that comes back on the port it had; any other server listens on port 0 and says where.
//
// A port found by listening on port 0 and closing the listener is free for everybody else on the machine until the server takes it.
// So a socket stays bound to the port, without listening. The kernel gives a bound port neither to a socket bound to port 0 nor to
// an outgoing connection, yet a server may listen on it, as often as it likes: both sockets have SO_REUSEADDR, which Go sets
// for every listener. (The option is set after the bind, so that the kernel does not let two tests share a port either.)
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
