package proto_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/dbqpg/dbqpg/proto"
)

// claims returns inputs of a few bytes that claim to hold many.
func claims() [][]byte {
	return [][]byte{
		nil, {0}, {0xc0}, {0x80}, {0x8f}, {0xc1},
		{0xde, 0xff, 0xff}, {0xdf, 0xff, 0xff, 0xff, 0xff}, // maps of 65,535 and 4 billion
		{0xdd, 0xff, 0xff, 0xff, 0xff}, // a list of 4 billion
		{0xc6, 0xff, 0xff, 0xff, 0xff}, // 4 GiB of bytes
		{0xdb, 0xff, 0xff, 0xff, 0xff}, // 4 GiB of text
		{0xc9, 0xff, 0xff, 0xff, 0xff, 1},
		bytes.Repeat([]byte{0x91}, 10000), // lists in lists
		bytes.Repeat([]byte{0x81, 0xa1, 'v'}, 1000),
	}
}

// spoilt returns valid encodings of m with a huge length or number put in place of each
// of their bytes.
func spoilt(t testing.TB, m proto.Message) [][]byte {
	var inputs [][]byte
	valid := encode(t, m)
	for i := range valid {
		for _, claim := range [][]byte{
			{0xdf, 0x7f, 0xff, 0xff, 0xff}, {0xdd, 0x7f, 0xff, 0xff, 0xff}, {0xc6, 0x7f, 0xff, 0xff, 0xff},
			{0xdb, 0x7f, 0xff, 0xff, 0xff}, {0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
			{0xce, 0x00, 0xff, 0xff, 0xff},
		} {
			inputs = append(inputs, append(append(bytes.Clone(valid[:i]), claim...), valid[i+1:]...))
		}
	}
	return inputs
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Whatever arrives, a decoder allocates less than twice the input and 64 KiB.
func TestAllocationIsBounded(t *testing.T) {
	for _, m := range messages() {
		for _, input := range append(claims(), spoilt(t, m)...) {
			got := fresh(m)
			if n, most := allocated(func() { proto.Unmarshal(input, got) }), 2*uint64(len(input))+64<<10; n > most {
				t.Errorf("%T: %d bytes of input % .40x allocate %d bytes, at most %d are allowed", m, len(input), input,
					n, most)
			}
		}
	}
}

// The same holds for large messages, valid and cut short.
func TestAllocationOfLargeMessages(t *testing.T) {
	episode := largeEpisode()
	policy := messages()[8].(*proto.Policy)
	policy.Params = make([]float64, 1<<20)
	for _, m := range []proto.Message{episode, policy} {
		valid := encode(t, m)
		for _, input := range [][]byte{valid, valid[:len(valid)-1], valid[:len(valid)/2]} {
			got := fresh(m)
			if n, most := allocated(func() { proto.Unmarshal(input, got) }), 2*uint64(len(input))+64<<10; n > most {
				t.Errorf("%T: %d bytes allocate %d, at most %d are allowed", m, len(input), n, most)
			}
		}
	}
}

// largeEpisode returns 1,000 steps of the largest task: 376 observations, 17 actions.
func largeEpisode() *proto.Episode {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = rng.Float32()
		}
		return v
	}
	return &proto.Episode{
		Ticket:       proto.Ticket{Run: "Humanoid"},
		Observations: fill(376_000), FinalObservation: fill(376), Actions: fill(17_000), Rewards: make([]float64, 1000),
	}
}

// A message cut anywhere is refused, and so is one with anything behind it.
func TestTruncated(t *testing.T) {
	for _, m := range messages() {
		valid := encode(t, m)
		for n := range valid {
			if err := proto.Unmarshal(valid[:n], fresh(m)); !errors.Is(err, proto.ErrMalformed) {
				t.Errorf("%T cut to %d of %d bytes: %v", m, n, len(valid), err)
			}
		}
		if err := proto.Unmarshal(append(bytes.Clone(valid), 0), fresh(m)); !errors.Is(err, proto.ErrMalformed) {
			t.Errorf("%T with a byte too many: %v", m, err)
		}
	}
}

// No flipped bit in an array's bytes goes unseen.
func TestCorruptedArray(t *testing.T) {
	valid := encode(t, messages()[7])
	observations := bytes.Index(valid, []byte{0, 0, 0x80, 0x3f}) // 1 as float32
	for i := observations; i < observations+24; i++ {
		for bit := range 8 {
			input := bytes.Clone(valid)
			input[i] ^= 1 << bit
			if err := proto.Unmarshal(input, new(proto.Episode)); !errors.Is(err, proto.ErrChecksum) {
				t.Errorf("byte %d, bit %d flipped: %v", i, bit, err)
			}
		}
	}
}

func TestOtherVersionAndKind(t *testing.T) {
	ask := encode(t, &proto.Ask{Slot: proto.Slot{Actor: "a"}})
	if err := proto.Unmarshal(ask, new(proto.Announcement)); !errors.Is(err, proto.ErrMalformed) {
		t.Errorf("an ask read as an announcement: %v", err)
	}
	newer := bytes.Clone(ask)
	newer[1] = proto.Version + 1
	if err := proto.Unmarshal(newer, new(proto.Ask)); !errors.Is(err, proto.ErrVersion) {
		t.Errorf("the next version: %v", err)
	}
	older := bytes.Clone(ask)
	older[1] = proto.Version - 1
	if err := proto.Unmarshal(older, new(proto.Ask)); !errors.Is(err, proto.ErrOlder) {
		t.Errorf("the last version: %v", err)
	}
}

// An array that is no whole number of elements is refused, and so is one without room for a checksum.
func TestRaggedArray(t *testing.T) {
	valid := encode(t, messages()[7])
	e := messages()[7].(*proto.Episode)
	array, err := e.Rewards.Bytes()
	if err != nil || !bytes.Contains(valid, array) {
		t.Fatalf("% x is not in % x, %v", array, valid, err)
	}
	for n := range 16 {
		ragged := proto.Bytes(make([]byte, n))
		data, err := ragged.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		err = proto.Unmarshal(bytes.Replace(valid, array, data, 1), new(proto.Episode))
		if whole := n%8 == 0; whole && !errors.Is(err, proto.ErrShape) || !whole &&
			!errors.Is(err, proto.ErrMalformed) {
			t.Errorf("%d bytes of rewards for 2 steps: %v", n, err)
		}
	}
	for n := range 4 {
		data := append([]byte{0xc4, byte(n)}, make([]byte, n)...)
		if err := proto.Unmarshal(bytes.Replace(valid, array, data, 1), new(proto.Episode)); !errors.Is(err,
			proto.ErrMalformed) {
			t.Errorf("an array of %d bytes: %v", n, err)
		}
	}
}

// fuzz checks one decoder: no panic, no allocation above the bound, and whatever it
// accepts is a message that comes back from its own encoding.
func fuzz(f *testing.F, m proto.Message) {
	for _, seed := range messages() {
		f.Add(encode(f, seed))
	}
	for _, input := range claims() {
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := fresh(m)
		var err error
		if n, most := allocated(func() { err = proto.Unmarshal(data, got) }), 2*uint64(len(data))+64<<10; n > most {
			t.Fatalf("%d bytes allocate %d, at most %d are allowed", len(data), n, most)
		}
		if err != nil {
			return
		}
		again := fresh(m)
		if err := proto.Unmarshal(encode(t, got), again); err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("accepted %+v, which comes back as %+v, %v", got, again, err)
		}
	})
}

func FuzzSegment(f *testing.F)      { fuzz(f, new(proto.Segment)) }
func FuzzAnnouncement(f *testing.F) { fuzz(f, new(proto.Announcement)) }
func FuzzAsk(f *testing.F)          { fuzz(f, new(proto.Ask)) }
func FuzzOffer(f *testing.F)        { fuzz(f, new(proto.Offer)) }
func FuzzChunk(f *testing.F)        { fuzz(f, new(proto.Chunk)) }
func FuzzReturn(f *testing.F)       { fuzz(f, new(proto.Return)) }
func FuzzReply(f *testing.F)        { fuzz(f, new(proto.Reply)) }
func FuzzEpisode(f *testing.F)      { fuzz(f, new(proto.Episode)) }
func FuzzPolicy(f *testing.F)       { fuzz(f, new(proto.Policy)) }

func BenchmarkMarshalEpisode(b *testing.B) {
	e := largeEpisode()
	buffer := encode(b, e)
	b.SetBytes(int64(len(buffer)))
	b.ReportAllocs()
	for b.Loop() {
		buffer, _ = proto.Marshal(buffer[:0], e)
	}
}

func BenchmarkUnmarshalEpisode(b *testing.B) {
	data := encode(b, largeEpisode())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	var e proto.Episode
	for b.Loop() {
		if err := proto.Unmarshal(data, &e); err != nil {
			b.Fatal(err)
		}
	}
}
