package external

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pipe is this program's end of a pipe, read or written until a deadline. It waits in poll(2) and keeps its thread
// meanwhile: an answer takes about a millisecond, in which the runtime's own poller would put thread after thread to
// sleep, at several times the processor time.
type pipe struct {
	fd       int
	deadline time.Time
}

// newPipe returns our end of a new pipe, that which is written to or the other, and theirs.
func newPipe(write bool) (ours *pipe, theirs *os.File, err error) {
	var fds [2]int // read, write
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if write {
		fds[0], fds[1] = fds[1], fds[0]
	}
	ours, theirs = &pipe{fd: fds[0]}, os.NewFile(uintptr(fds[1]), "pipe")
	if err := unix.SetNonblock(ours.fd, true); err != nil { // ours alone
		_ = ours.Close()
		_ = theirs.Close()
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return ours, theirs, nil
}

// wait waits until the pipe can be read or written, as events say, or the other end is closed.
func (p *pipe) wait(events int16) error {
	polled := []unix.PollFd{{Fd: int32(p.fd), Events: events}}
	for {
		left := time.Until(p.deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		n, err := unix.Poll(polled, int(min(left/time.Millisecond, time.Hour/time.Millisecond))+1)
		switch {
		case err != nil && err != unix.EINTR:
			return os.NewSyscallError("poll", err)
		case n > 0:
			return nil
		}
	}
}

func (p *pipe) Read(data []byte) (int, error) {
	for {
		if err := p.wait(unix.POLLIN); err != nil {
			return 0, err
		}
		switch n, err := unix.Read(p.fd, data); {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(data) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes a message that has room in the pipe without waiting.
func (p *pipe) Write(data []byte) (written int, err error) {
	for written < len(data) {
		n, err := unix.Write(p.fd, data[written:])
		switch written += max(n, 0); err {
		case nil, unix.EINTR:
		case unix.EAGAIN:
			if err := p.wait(unix.POLLOUT); err != nil {
				return written, err
			}
		default:
			return written, os.NewSyscallError("write", err)
		}
	}
	return written, nil
}

func (p *pipe) Close() error {
	return os.NewSyscallError("close", unix.Close(p.fd))
}
