package registry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// changedSlowly is the slow twin of ChangedSince.
func changedSlowly(s *State, after uint64) (names []string) {
	for i := range s.Runs {
		if s.Runs[i].Changed > after {
			names = append(names, s.Runs[i].Name)
		}
	}
	return names
}

func changedNames(s *State, after uint64) (names []string) {
	for _, run := range s.ChangedSince(after) {
		names = append(names, run.Name)
	}
	return names
}

// After any commands, and after a snapshot, the runs changed since any index are those that a look at all finds.
func TestChangedSince(t *testing.T) {
	for seed := range uint64(50) {
		rng, s := rand.New(rand.NewPCG(seed, 0)), New()
		for range 200 {
			name := fmt.Sprint("e", rng.IntN(4))
			run := name + "/Swimmer-v2/npg-uapg-s" + fmt.Sprint(1+rng.IntN(3))
			c := []Command{
				{Submit: &Submit{Spec{Name: name, Tasks: []string{"Swimmer-v2"}, Algorithms: []string{"npg"},
					Estimators: []string{"uapg"}, Seeds: []uint64{1, 2, 3}}}},
				{Take: &Take{Learner: "l", TTL: 1, Run: run}},
				{Steer: &Steer{Name: name, Action: Cancel}},
				{Steer: &Steer{Name: run, Action: Cancel}},
				{Steer: &Steer{Name: name, Action: Retry}},
				{Remove: &Remove{name}},
				{Announce: &Announce{Node{"n1", "http://a"}}},
			}[rng.IntN(7)]
			c.Time = start.Add(time.Duration(s.Index) * 300 * time.Millisecond)
			s.Apply(c)
			if rng.IntN(20) == 0 {
				s = s.Clone()
			}
			after := uint64(rng.IntN(int(s.Index) + 2))
			if got, want := changedNames(s, after), changedSlowly(s, after); !slices.Equal(got, want) {
				t.Fatalf("seed %d, index %d, after %d: %v, want %v", seed, s.Index, after, got, want)
			}
			if len(s.recent) > 2*len(s.Runs)+64 {
				t.Fatalf("%d changes of %d runs are kept", len(s.recent), len(s.Runs))
			}
		}
	}
}

// What changed last is found in the same time among 10,000 runs as among ten.
func BenchmarkChangedSince(b *testing.B) {
	for _, c := range []struct {
		name  string
		after func(s *State) []string
	}{{"recent", func(s *State) []string { return changedNames(s, s.Changed-1) }},
		{"all", func(s *State) []string { return changedSlowly(s, s.Changed-1) }}} {
		b.Run(c.name, func(b *testing.B) {
			s := tenThousandRuns()
			s.Apply(Command{Time: start, Take: &Take{Learner: "l", TTL: 3600, Run: s.Runs[5000].Name}})
			for b.Loop() {
				if len(c.after(s)) != 1 {
					b.Fatal("one run has changed")
				}
			}
		})
	}
}

// What each command costs where there are 10,000 runs, all taken but the last, as many clients and processes as are
// remembered.
func BenchmarkApply(b *testing.B) {
	s := tenThousandRuns()
	for _, run := range s.Runs[:len(s.Runs)-1] {
		s.Apply(Command{Time: start, Take: &Take{Learner: "l", TTL: 3600, Run: run.Name}})
	}
	for i := range MaxClients {
		s.Apply(Command{Time: start, Request: Request{fmt.Sprint("c", i), 1},
			Announce: &Announce{Node{"n1", "http://a"}}})
	}
	last := s.Runs[len(s.Runs)-1].Name
	number := uint64(1)
	for _, c := range []struct {
		name     string
		commands []Command
	}{
		{"take the last and release it", []Command{
			{Take: &Take{Learner: "l", TTL: 3600, Run: last}}, {End: &End{Hold: Hold{Run: last}, State: Queued}},
		}},
		{"announce", []Command{{Announce: &Announce{Node{"n1", "http://a"}}}}},
		{"request of a client among many", []Command{{Request: Request{Client: "c2000"},
			Announce: &Announce{Node{"n1", "http://a"}}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				for _, command := range c.commands {
					command.Time = start
					if command.Request.Client != "" {
						number++
						command.Request.Number = number
					}
					if command.End != nil {
						command.End = &End{Hold: Hold{last, s.Run(last).Epoch}, State: Queued}
					}
					if r := s.Apply(command); r.Refusal != nil {
						b.Fatal(r.Refusal)
					}
				}
			}
		})
	}
}
