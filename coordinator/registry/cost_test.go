package registry

import (
	"fmt"
	"testing"
)

// Of 10,000 runs, those that have changed are found in some 10 µs.
func BenchmarkChangedSince(b *testing.B) {
	s := tenThousandRuns()
	s.Apply(Command{Time: start, Take: &Take{Learner: "l", TTL: 3600, Run: s.Runs[5000].Name}})
	for b.Loop() {
		if len(s.ChangedSince(s.Changed-1)) != 1 {
			b.Fatal("one run has changed")
		}
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
		s.Apply(Command{Time: start, Request: Request{Client: fmt.Sprint("c", i), Number: 1},
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
