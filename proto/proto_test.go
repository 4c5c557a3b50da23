package proto_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/dbqpg/dbqpg/proto"
)

// messages builds one of each, all fields set.
func messages() []proto.Message {
	ticket := proto.Ticket{Run: "Swimmer-v2/npg-uapg-s0", Epoch: 3, Batch: 70000, Index: 12, Seed: math.MaxUint64}
	slot := proto.Slot{Actor: "host-1234-abcd", Number: 1}
	return []proto.Message{
		&proto.Announcement{Run: ticket.Run, Task: "Swimmer-v2", Position: ticket.Position(),
			Need: proto.Need{Tickets: 15, Stamp: 1 << 40}},
		&proto.Ask{Slot: slot, Engine: "mujoco 3.17.0 avx2"},
		&proto.Offer{Slot: slot, Ticket: ticket, Size: 1 << 20},
		&proto.Chunk{Slot: slot, Ticket: ticket, Part: 1, Parts: 3, More: true, Data: []byte("episode")},
		&proto.Return{Slot: slot, Ticket: ticket, Reason: "simulation diverged"},
		&proto.Reply{Status: proto.OK, Position: ticket.Position(), Need: proto.Need{Tickets: 7, Stamp: 8},
			Next: &ticket},
		&proto.Reply{Status: proto.Refused, Position: ticket.Position(), Reason: "wrong ticket"},
		&proto.Episode{
			Ticket: ticket, Engine: "mujoco 3.17.0 avx2",
			Observations: []float32{1, 2, 3, 4, 5, 6}, FinalObservation: []float32{7, 8, 9},
			Actions: []float32{0.5, -0.5}, Rewards: []float64{1.25, -2}, Terminated: true,
		},
		&proto.Policy{
			Run: ticket.Run, Epoch: 3, Batch: 70000, Task: "Swimmer-v2", Hidden: []int{64, 64},
			Params: []float64{0.1, 0.2, -0.3}, Mean: []float64{0, 1}, Std: []float64{1, 2}, Clip: 5,
		},
		segment(ticket),
		&proto.Reply{Next: &ticket, Start: &proto.Start{Steps: 3, State: &segment(ticket).State}},
		&proto.Reply{Next: &ticket, Start: &proto.Start{Steps: 3, Counted: 500}},
		&proto.Ended{Run: ticket.Run},
	}
}

// segment returns three steps of a stream: the end of an episode, another of one step, and the beginning of a third.
func segment(ticket proto.Ticket) *proto.Segment {
	random, err := rand.NewChaCha8([32]byte{1}).MarshalBinary()
	if err != nil {
		panic(err)
	}
	return &proto.Segment{
		Ticket: ticket, Engine: "mujoco 3.17.0 avx2",
		Observations: []float32{1, 2, 3, 4, 5, 6}, Actions: []float32{0.5, -0.5, 0.25}, Rewards: []float64{1.25, -2, 4},
		Ends: []byte{proto.TimeLimit, proto.Terminated, proto.GoesOn}, Finals: []float32{7, 8, 9, 10},
		State: proto.State{Task: "Swimmer-v2", Step: 1, Random: random, Observation: []float32{11, 12},
			Physics: []float64{13, 14, 15}},
	}
}

// fresh returns an empty message of m's type.
func fresh(m proto.Message) proto.Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(proto.Message)
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(nil, m)
	if err != nil {
		t.Fatalf("Marshal(%T): %v", m, err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	for _, m := range messages() {
		got := fresh(m)
		if err := proto.Unmarshal(encode(t, m), got); err != nil {
			t.Errorf("%T: %v", m, err)
		} else if !reflect.DeepEqual(got, m) {
			t.Errorf("%T: got %+v, sent %+v", m, got, m)
		}
	}
}

// Marshal appends, and leaves what was there.
func TestMarshalAppends(t *testing.T) {
	for _, m := range messages() {
		b, err := proto.Marshal([]byte("before"), m)
		if err != nil || !bytes.Equal(b, append([]byte("before"), encode(t, m)...)) {
			t.Errorf("%T: appended %q, %v", m, b, err)
		}
	}
}

// Any episode comes back bit for bit.
func TestEpisodeRoundTripProperty(t *testing.T) {
	float32s := rapid.Float32Range(-proto.MaxNumber, proto.MaxNumber)
	rapid.Check(t, func(t *rapid.T) {
		steps, o, a := rapid.IntRange(1, 40).Draw(t, "T"), rapid.IntRange(1, 8).Draw(t, "o"),
			rapid.IntRange(1, 4).Draw(t, "a")
		sent := &proto.Episode{
			Ticket: proto.Ticket{Run: "r", Epoch: rapid.Uint64().Draw(t, "epoch"),
				Batch: rapid.Uint64().Draw(t, "iteration"),
				Index: rapid.Uint64().Draw(t, "index"), Seed: rapid.Uint64().Draw(t, "seed")},
			Engine:           rapid.StringN(0, 10, 40).Draw(t, "engine"),
			Observations:     rapid.SliceOfN(float32s, steps*o, steps*o).Draw(t, "observations"),
			FinalObservation: rapid.SliceOfN(float32s, o, o).Draw(t, "final"),
			Actions:          rapid.SliceOfN(float32s, steps*a, steps*a).Draw(t, "actions"),
			Rewards: rapid.SliceOfN(rapid.Float64Range(-proto.MaxNumber, proto.MaxNumber), steps,
				steps).Draw(t, "rewards"),
			Terminated: rapid.Bool().Draw(t, "terminated"),
		}
		b, err := proto.Marshal(nil, sent)
		if err != nil {
			t.Fatal(err)
		}
		var got proto.Episode
		if err := proto.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&got, sent) {
			t.Fatalf("got %+v, sent %+v", got, sent)
		}
	})
}

// The encoding is plain msgpack: a general decoder reads it.
func TestEncodingIsMsgpack(t *testing.T) {
	for _, m := range messages() {
		var got []any
		if err := msgpack.Unmarshal(encode(t, m), &got); err != nil {
			t.Errorf("%T: %v", m, err)
			continue
		}
		if len(got) != 3 || got[0] != int8(proto.Version) || got[1] == "" {
			t.Errorf("%T travels as %v", m, got)
		}
	}
	var episode []any
	if err := msgpack.Unmarshal(encode(t, messages()[7]), &episode); err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x00\x00\x00\xf4\x3f\x00\x00\x00\x00\x00\x00\x00\xc0"
	sum := crc32.Checksum([]byte(want), crc32.MakeTable(crc32.Castagnoli))
	want += string(binary.BigEndian.AppendUint32(nil, sum))
	if rewards := episode[2].([]any)[5]; string(rewards.([]byte)) != want {
		t.Errorf("rewards travel as %x, want %x", rewards, want)
	}
}

// The bytes on the wire change only together with Version.
func TestEncodingIsStable(t *testing.T) {
	for want, m := range map[string]proto.Message{
		"93" + "05" + "a361736b" + "93" + "92a16101" + "a165" + "a164": &proto.Ask{
			Slot: proto.Slot{Actor: "a", Number: 1}, Engine: "e", Digest: "d"},
		"93" + "05" + "a57265706c79" + "96" + "01" + "920203" + "920500" + "95a1720203ccc804" + "93" + "09" + "08" +
			"c0" + "a0": &proto.Reply{
			Status: proto.Wait, Position: proto.Position{Epoch: 2, Batch: 3}, Need: proto.Need{Tickets: 5},
			Next:  &proto.Ticket{Run: "r", Epoch: 2, Batch: 3, Index: 200, Seed: 4},
			Start: &proto.Start{Steps: 9, Counted: 8}},
	} {
		if got := hex.EncodeToString(encode(t, m)); got != want {
			t.Errorf("%T travels as\n%s, want\n%s", m, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	episode := func(change func(*proto.Episode)) proto.Message {
		e := messages()[7].(*proto.Episode)
		change(e)
		return e
	}
	policy := func(change func(*proto.Policy)) proto.Message {
		p := messages()[8].(*proto.Policy)
		change(p)
		return p
	}
	slot, ticket := proto.Slot{Actor: "a"}, proto.Ticket{Run: "r"}
	cut := func(change func(*proto.Segment)) proto.Message {
		s := segment(ticket)
		change(s)
		return s
	}
	state := func(change func(*proto.State)) proto.Message {
		s := segment(ticket).State
		change(&s)
		return &proto.Reply{Next: &ticket, Start: &proto.Start{Steps: 1, State: &s}}
	}
	tests := []struct {
		name string
		m    proto.Message
		want error
		says string
	}{
		{"NaN reward", episode(func(e *proto.Episode) { e.Rewards[1] = nan }), proto.ErrNotFinite,
			"rewards: not finite, or beyond 1e15: NaN at row 1, column 0"},
		{"infinite observation", episode(func(e *proto.Episode) { e.Observations[5] = float32(inf) }),
			proto.ErrNotFinite, "observations: not finite, or beyond 1e15: +Inf at row 1, column 2"},
		{"infinite final observation", episode(func(e *proto.Episode) { e.FinalObservation[1] = float32(-inf) }),
			proto.ErrNotFinite, "final_observation"},
		{"NaN action", episode(func(e *proto.Episode) { e.Actions[0] = float32(nan) }), proto.ErrNotFinite, "actions"},
		{"no steps", episode(func(e *proto.Episode) { e.Rewards, e.Actions, e.Observations = nil, nil, nil }),
			proto.ErrShape, "0 rewards"},
		{"a reward too many", episode(func(e *proto.Episode) { e.Rewards = append(e.Rewards, 0) }), proto.ErrShape,
			"3 rewards"},
		{"ragged actions", episode(func(e *proto.Episode) { e.Actions = append(e.Actions, 0) }), proto.ErrShape,
			"3 actions"},
		{"run with a wildcard", episode(func(e *proto.Episode) { e.Ticket.Run = "a.*" }), proto.ErrInvalid,
			`holds "."`},
		{"NaN parameter", policy(func(p *proto.Policy) { p.Params[2] = nan }), proto.ErrNotFinite,
			"params: not finite, or beyond 1e15: NaN at row 2"},
		{"NaN mean", policy(func(p *proto.Policy) { p.Mean[0] = nan }), proto.ErrNotFinite, "mean"},
		{"negative deviation", policy(func(p *proto.Policy) { p.Std[0] = -1 }), proto.ErrInvalid, "std"},
		{"NaN deviation", policy(func(p *proto.Policy) { p.Std[0] = nan }), proto.ErrNotFinite, "std"},
		{"negative clip", policy(func(p *proto.Policy) { p.Clip = -1 }), proto.ErrInvalid, "clip"},
		{"NaN clip", policy(func(p *proto.Policy) { p.Clip = nan }), proto.ErrNotFinite, "clip"},
		{"uneven normaliser", policy(func(p *proto.Policy) { p.Mean = p.Mean[1:] }), proto.ErrShape,
			"1 means and 2 standard deviations"},
		{"no parameters", policy(func(p *proto.Policy) { p.Params = nil }), proto.ErrShape, "0 parameters"},
		{"layer of width 0", policy(func(p *proto.Policy) { p.Hidden[0] = 0 }), proto.ErrInvalid, "hidden"},
		{"nine layers", policy(func(p *proto.Policy) { p.Hidden = make([]int, 9) }), proto.ErrTooLarge, "9 layers"},
		{"no task", policy(func(p *proto.Policy) { p.Task = "" }), proto.ErrInvalid, "task"},
		{"no actor", &proto.Ask{}, proto.ErrInvalid, "actor"},
		{"long actor", &proto.Ask{Slot: proto.Slot{Actor: strings.Repeat("a", 200)}}, proto.ErrInvalid, "200 bytes"},
		{"long engine", &proto.Ask{Slot: slot, Engine: strings.Repeat("a", 200)}, proto.ErrTooLarge, "engine"},
		{"announcement of no task", &proto.Announcement{Run: "r"}, proto.ErrInvalid, "task"},
		{"announcement of no run", &proto.Announcement{Task: "t"}, proto.ErrInvalid, "run"},
		{"no run", &proto.Return{Slot: slot}, proto.ErrInvalid, "run"},
		{"empty offer", &proto.Offer{Slot: slot, Ticket: ticket}, proto.ErrTooLarge, "0 bytes"},
		{"offer too large", &proto.Offer{Slot: slot, Ticket: ticket, Size: 1 << 40}, proto.ErrTooLarge,
			"1099511627776 bytes"},
		{"part past the end", &proto.Chunk{Slot: slot, Ticket: ticket, Part: 2, Parts: 2, Data: []byte{1}},
			proto.ErrInvalid, "part 2 of 2"},
		{"empty chunk", &proto.Chunk{Slot: slot, Ticket: ticket, Parts: 1}, proto.ErrInvalid, "no bytes"},
		{"chunk above the limit", &proto.Chunk{Slot: slot, Ticket: ticket, Parts: 1,
			Data: make([]byte, proto.MaxChunk)}, proto.ErrTooLarge, "at most 524288"},
		{"segment of no steps", cut(func(s *proto.Segment) {
			s.Rewards, s.Actions, s.Observations, s.Ends = nil, nil, nil, nil
		}), proto.ErrShape, "0 rewards"},
		{"segment with an end too few", cut(func(s *proto.Segment) { s.Ends = s.Ends[1:] }), proto.ErrShape, "2 ends"},
		{"unknown end", cut(func(s *proto.Segment) { s.Ends[2] = 3 }), proto.ErrInvalid, "ends: invalid: 3 at step 2"},
		{"end without a final observation", cut(func(s *proto.Segment) { s.Finals = s.Finals[2:] }), proto.ErrShape,
			"2 numbers for the ends of 2 episodes"},
		{"infinite end", cut(func(s *proto.Segment) { s.Finals[3] = float32(inf) }), proto.ErrNotFinite,
			"finals: not finite, or beyond 1e15: +Inf at row 1, column 1"},
		{"NaN in a segment", cut(func(s *proto.Segment) { s.Observations[3] = float32(nan) }), proto.ErrNotFinite,
			"observations: not finite, or beyond 1e15: NaN at row 1, column 1"},
		{"segment with a NaN state", cut(func(s *proto.Segment) { s.State.Physics[1] = nan }), proto.ErrNotFinite,
			"physics: not finite, or beyond 1e15: NaN at row 1"},
		{"infinite state", state(func(s *proto.State) { s.Physics[2] = inf }), proto.ErrNotFinite, "physics"},
		{"NaN in a state's observation", state(func(s *proto.State) { s.Observation[0] = float32(nan) }),
			proto.ErrNotFinite, "observation"},
		{"state of no physics", state(func(s *proto.State) { s.Physics = nil }), proto.ErrShape,
			"2 observations and 0 numbers"},
		{"state of no task", state(func(s *proto.State) { s.Task = "" }), proto.ErrInvalid, "task"},
		{"random numbers cut short", state(func(s *proto.State) { s.Random = s.Random[1:] }), proto.ErrInvalid,
			"random"},
		{"no random numbers", state(func(s *proto.State) { s.Random = nil }), proto.ErrInvalid, "random"},
		{"state of 33 KB", state(func(s *proto.State) { s.Physics = make([]float64, 33<<7) }), proto.ErrTooLarge,
			"at most 32768"},
		{"segment without a ticket", &proto.Reply{Start: &proto.Start{Steps: 1}}, proto.ErrInvalid, "without a ticket"},
		{"a beginning with a state", &proto.Reply{Next: &ticket,
			Start: &proto.Start{Steps: 1, Counted: 1, State: &segment(ticket).State}}, proto.ErrInvalid, "counted"},
		{"no length", &proto.Reply{Next: &ticket, Start: &proto.Start{}}, proto.ErrInvalid, "steps"},
		{"absurd length", &proto.Reply{Next: &ticket, Start: &proto.Start{Steps: 1 << 40}}, proto.ErrInvalid,
			"1 to 65536"},
		{"unknown status", &proto.Reply{Status: 17}, proto.ErrInvalid, "17"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, err := proto.Marshal([]byte("before"), test.m)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Marshal: %v; want %v that says %q", err, test.want, test.says)
			}
			if string(b) != "before" {
				t.Errorf("a refused message left %d bytes", len(b)-len("before"))
			}
		})
	}
}

// The episodes of a segment are its steps in order: the first is the rest of one that began before, the last goes on.
func TestSegmentEpisodes(t *testing.T) {
	s := segment(proto.Ticket{Run: "r"})
	got, after := s.Episodes(proto.Before{Steps: 999, Return: 100, Partial: true})
	want := []*proto.Episode{
		{Before: proto.Before{Steps: 999, Return: 100, Partial: true}, Observations: []float32{1, 2},
			FinalObservation: []float32{7, 8}, Actions: []float32{0.5}, Rewards: []float64{1.25}},
		{Observations: []float32{3, 4}, FinalObservation: []float32{9, 10}, Actions: []float32{-0.5},
			Rewards: []float64{-2}, Terminated: true},
		{Observations: []float32{5, 6}, FinalObservation: []float32{11, 12}, Actions: []float32{0.25},
			Rewards: []float64{4}, GoesOn: true},
	}
	for _, e := range want {
		e.Ticket, e.Engine = s.Ticket, s.Engine
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if after != (proto.Before{Steps: 1, Return: 4}) {
		t.Errorf("the next segment's episode has had %+v", after)
	}
	if r := got[0].Return(); r != 101.25 {
		t.Errorf("the first episode's return is %v, want 101.25", r)
	}
	s.Ends[2], s.Finals = proto.Terminated, append(s.Finals, 16, 17)
	got, after = s.Episodes(proto.Before{})
	if last := got[2]; last.GoesOn || !last.Terminated || last.FinalObservation[0] != 16 || after != (proto.Before{}) {
		t.Errorf("an episode that ends with its segment: %+v, then %+v", last, after)
	}
	// An episode of several segments.
	s.Ends, s.Finals = []byte{proto.GoesOn, proto.GoesOn, proto.GoesOn}, nil
	total := proto.Before{Steps: 13, Return: 103.25, Partial: true}
	if _, after := s.Episodes(proto.Before{Steps: 10, Return: 100, Partial: true}); after != total {
		t.Errorf("an episode of several segments: %+v", after)
	}
}

func TestChunkSize(t *testing.T) {
	for payload, want := range map[int]int{
		1 << 20: 508 << 10, 64 << 20: 508 << 10, 512 << 10: 508 << 10, 64 << 10: 60 << 10, 1 << 10: -3 << 10,
	} {
		if got := proto.ChunkSize(payload); got != want {
			t.Errorf("ChunkSize(%d) = %d, want %d", payload, got, want)
		}
	}
	// A full chunk under the longest names still fits.
	long := strings.Repeat("x", proto.MaxName)
	largest := uint64(math.MaxUint64)
	chunk := &proto.Chunk{
		Slot:   proto.Slot{Actor: long, Number: largest},
		Ticket: proto.Ticket{Run: long, Epoch: largest, Batch: largest, Index: largest, Seed: largest},
		Part:   largest - 1, Parts: largest,
		Data: make([]byte, proto.ChunkSize(1<<20)),
	}
	if n := len(encode(t, chunk)); n > 512<<10 {
		t.Errorf("the largest chunk takes %d bytes", n)
	}
}

func TestPositionOrder(t *testing.T) {
	ordered := []proto.Position{{}, {Batch: 1}, {Batch: 2}, {Epoch: 1}, {Epoch: 1, Batch: 2}}
	for i, p := range ordered {
		for j, q := range ordered {
			if p.Before(q) != (i < j) {
				t.Errorf("%v.Before(%v) = %v", p, q, p.Before(q))
			}
		}
	}
}

func TestReasonKeepsBothEndsAndRunesWhole(t *testing.T) {
	text := "a" + strings.Repeat("é", 300) + "b"
	got := proto.Reason(errors.New(text))
	first, last, found := strings.Cut(got, " ... ")
	if !found || len(got) > proto.MaxReason || len(got) < proto.MaxReason-2 || !strings.HasPrefix(text, first) ||
		!strings.HasSuffix(text, last) {
		t.Errorf("Reason kept %d bytes: %s", len(got), got)
	}
	encode(t, &proto.Return{Slot: proto.Slot{Actor: "a"}, Ticket: proto.Ticket{Run: "r"}, Reason: got})
}

func TestSubjects(t *testing.T) {
	s := proto.SubjectsOf("Swimmer-v2/npg")
	for _, m := range []proto.Request{new(proto.Ask), new(proto.Offer), new(proto.Chunk), new(proto.Return)} {
		subject := s.Request(7, m, "KEY")
		if prefix := strings.TrimSuffix(s.Requests(7), "*.*"); !strings.HasPrefix(subject, prefix) {
			t.Errorf("%q is not under %q", subject, prefix)
		}
		got, _ := proto.DecodeRequest(subject, nil)
		if reflect.TypeOf(got) != reflect.TypeOf(m) {
			t.Errorf("%q decodes a %T, want %T", subject, got, m)
		}
	}
	if _, err := proto.DecodeRequest("dbqpg.r.1.delete.KEY", nil); !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("an unknown request: %v", err)
	}
	for _, bad := range []string{"", "a.b", "a b", "a*", ">", "é", strings.Repeat("a", 129)} {
		if proto.CheckRun(bad) == nil {
			t.Errorf("run name %q is accepted", bad)
		}
	}
}
