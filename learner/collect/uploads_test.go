package collect

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

// chunks cuts data into n parts.
func chunks(slot proto.Slot, data []byte, n int) []*proto.Chunk {
	parts := make([]*proto.Chunk, n)
	for i := range parts {
		parts[i] = &proto.Chunk{Slot: slot, Ticket: ticketZero, Part: uint64(i), Parts: uint64(n),
			Data: data[i*len(data)/n : (i+1)*len(data)/n]}
	}
	return parts
}

func offered(slot proto.Slot, size int) *proto.Offer {
	return &proto.Offer{Slot: slot, Ticket: ticketZero, Size: uint64(size)}
}

func episodeBytes(n int) []byte { return bytes.Repeat([]byte("0123456789"), n/10) }

func TestUploadInParts(t *testing.T) {
	data := episodeBytes(200_000)
	u := newUploads(proto.Credit, time.Minute)
	if !u.offer(offered(slotNumber(0), len(data)), start) {
		t.Fatal("no credit")
	}
	for i, c := range chunks(slotNumber(0), data, 4) {
		// Each chunk arrives twice: its answer was lost.
		for copies := range 2 {
			got, err := u.add(c, start)
			switch {
			case i == 3 && copies == 0:
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("the last chunk: %d bytes, %v", len(got), err)
				}
			case i == 3:
				if !errors.Is(err, errRestart) {
					t.Errorf("a chunk after the last: %v", err)
				}
			case got != nil || err != nil:
				t.Errorf("chunk %d: %d bytes, %v", i, len(got), err)
			}
		}
	}
	if u.credit != proto.Credit {
		t.Errorf("credit is %d after the upload, %d before", u.credit, proto.Credit)
	}
}

// Uploads of several slots don't mix.
func TestUploadsInterleaved(t *testing.T) {
	u := newUploads(proto.Credit, time.Minute)
	data := [][]byte{episodeBytes(100_000), episodeBytes(150_000), episodeBytes(200_000)}
	for n, d := range data {
		u.offer(offered(slotNumber(n), len(d)), start)
	}
	for part := range 5 {
		for n, d := range data {
			got, err := u.add(chunks(slotNumber(n), d, 5)[part], start)
			if err != nil || (got != nil) != (part == 4) || got != nil && !bytes.Equal(got, d) {
				t.Errorf("slot %d, part %d: %d bytes, %v", n, part, len(got), err)
			}
		}
	}
}

func TestUploadErrors(t *testing.T) {
	data := episodeBytes(100_000)
	other := ticketZero
	other.Index = 7
	tests := []struct {
		name string
		feed func(u *uploads) error
		want error
	}{
		{"nothing offered", func(u *uploads) error {
			_, err := u.add(chunks(slotNumber(1), data, 2)[0], start)
			return err
		}, errRestart},
		{"one large chunk that was not offered", func(u *uploads) error {
			_, err := u.add(chunks(slotNumber(1), data, 1)[0], start)
			return err
		}, errRestart},
		{"another ticket than offered", func(u *uploads) error {
			c := chunks(slotNumber(0), data, 2)[0]
			c.Ticket = other
			_, err := u.add(c, start)
			return err
		}, errRestart},
		{"a chunk is missing", func(u *uploads) error {
			_, err := u.add(chunks(slotNumber(0), data, 3)[1], start)
			return err
		}, errRestart},
		{"cut differently half-way", func(u *uploads) error {
			u.add(chunks(slotNumber(0), data, 3)[0], start)
			_, err := u.add(chunks(slotNumber(0), data, 4)[1], start)
			return err
		}, errRestart},
		{"larger than offered", func(u *uploads) error {
			u.add(chunks(slotNumber(0), episodeBytes(220_000), 4)[0], start)
			_, err := u.add(chunks(slotNumber(0), episodeBytes(220_000), 4)[1], start)
			return err
		}, errSize},
		{"smaller than offered", func(u *uploads) error {
			u.add(chunks(slotNumber(0), data[:90_000], 2)[0], start)
			_, err := u.add(chunks(slotNumber(0), data[:90_000], 2)[1], start)
			return err
		}, errSize},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			u := newUploads(proto.Credit, time.Minute)
			if !u.offer(offered(slotNumber(0), len(data)), start) {
				t.Fatal("no credit")
			}
			if err := test.feed(u); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			u.drop(slotNumber(0))
			if u.credit != proto.Credit {
				t.Errorf("credit is %d in the end, %d at first", u.credit, proto.Credit)
			}
		})
	}
}

// What is under way stays within the credit, which comes back when uploads end, fall silent or are replaced.
func TestCredit(t *testing.T) {
	const mb = 1 << 20
	u := newUploads(48*mb, time.Minute)
	for n := range 3 {
		if !u.offer(offered(slotNumber(n), 16*mb), start) {
			t.Fatalf("no credit for upload %d", n)
		}
	}
	if u.offer(offered(slotNumber(3), 1), start) {
		t.Error("credit beyond 48 MB")
	}
	if !u.offer(offered(slotNumber(2), 10*mb), start) {
		t.Error("a slot's new offer does not replace its old one")
	}
	if !u.offer(offered(slotNumber(3), 6*mb), start.Add(time.Second)) {
		t.Error("the credit of a replaced offer is lost")
	}
	u.expire(start.Add(time.Minute))
	if u.credit != 42*mb {
		t.Errorf("%d MB of credit once all but one fell silent, want 42", u.credit/mb)
	}
	if !u.offer(offered(slotNumber(4), 42*mb), start) {
		t.Error("no credit after the others fell silent")
	}
}

// A small episode needs no credit.
func TestInlineEpisode(t *testing.T) {
	u := newUploads(0, time.Minute)
	data := episodeBytes(proto.InlineEpisode)
	if got, err := u.add(chunks(slotNumber(0), data, 1)[0], start); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// What is kept grows with what arrives, not with what was announced or with the number of chunks.
func TestUploadMemory(t *testing.T) {
	u := newUploads(proto.Credit, time.Minute)
	u.offer(offered(slotNumber(0), 16<<20), start)
	c := &proto.Chunk{Slot: slotNumber(0), Ticket: ticketZero, Parts: 1 << 60, Data: []byte{1}}
	for c.Part = range uint64(10_000) {
		if _, err := u.add(c, start); err != nil {
			t.Fatal(err)
		}
	}
	if kept := cap(u.slots[slotNumber(0)].data); kept > 50_000 {
		t.Errorf("%d bytes are kept of 10,000 that came", kept)
	}
}
