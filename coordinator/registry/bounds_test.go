package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/proto"
)

// No command takes a run's name that could not be one.
func TestRunNames(t *testing.T) {
	for _, name := range []string{"a b", "a.b", "a\x1b[31m", strings.Repeat("a", 1000)} {
		hold := Hold{Run: name, Epoch: 1}
		for _, c := range []Command{
			{Take: &Take{Learner: "l", TTL: 1, Run: name}},
			{Commit: &Commit{Hold: hold, Checkpoint: Checkpoint{SHA256: strings.Repeat("0", 64)}}},
			{End: &End{Hold: hold, State: Done}}, {End: &End{Hold: hold, State: Failed}},
			{End: &End{Hold: hold, State: Queued}},
			{Steer: &Steer{Name: name, Action: Cancel}}, {Steer: &Steer{Name: name, Action: Retry}},
			{Reset: &Reset{Run: name}}, {Remove: &Remove{name}},
		} {
			var r *Refusal
			if err := c.Check(); !errors.As(err, &r) || r.Code != Invalid {
				data, _ := json.Marshal(c)
				t.Errorf("%s: %v", data, err)
			}
		}
	}
}

// The largest state that commands can make fits in a snapshot: one that is written can be read.
func TestSnapshotIsBounded(t *testing.T) {
	length := func(v any) int {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out) // as Encode's
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			t.Fatal(err)
		}
		return out.Len()
	}
	name, text := strings.Repeat("n", maxName), strings.Repeat(`"`, maxText)
	value := strings.Repeat(`"`, maxValue)
	var settings []Setting
	for range maxAxes {
		settings = append(settings, Setting{Name: name, Value: value})
	}
	checkpoint := &Checkpoint{math.MaxUint64, hash(1), text}
	r := Run{
		Name: strings.Repeat("n", proto.MaxName), Experiment: name, Task: name, Algorithm: name, Estimator: name,
		Seed:     math.MaxUint64,
		Settings: settings, Length: Length{MaxLength, MaxLength}, Priority: -MaxPriority, State: Cancelled,
		Reason: text + text,
		ID:     math.MaxUint64, Epoch: math.MaxUint64, Losses: MaxLosses, Start: checkpoint, Checkpoint: checkpoint,
		Steps:   math.MaxUint64,
		Summary: map[string]float64{}, Updated: start.Add(1), Changed: math.MaxUint64,
		Lease: &Lease{Learner: name, NATS: text, Expires: start.Add(1), TTL: 1.2345678901234567},
	}
	for i := range maxMetrics {
		r.Summary[fmt.Sprintf("%0*d", maxName, i)] = -1.2345678901234567e-300
	}
	one := Spec{Name: name, Tasks: []string{name}, Algorithms: []string{name}, Estimators: []string{name},
		Seeds: []uint64{math.MaxUint64}}
	for range maxAxes {
		one.Overrides = append(one.Overrides, Override{Name: name, Values: []string{value}})
	}
	for range maxTags {
		one.Tags = append(one.Tags, name)
	}
	largest := MaxRuns * length(r)
	largest += MaxClients * length(client{name, math.MaxUint64, strings.Repeat("f", 40), Response{Run: &r}})
	largest += MaxExperiments * length(Experiment{one, start.Add(1)})
	largest += MaxRuns * length(value) // each further value of an axis is at least one run
	largest += MaxDrained*length(name) + MaxNodes*length(Node{name, text})
	if largest > MaxSnapshot || largest < MaxSnapshot/2 {
		t.Errorf("the largest state takes %d bytes; MaxSnapshot is %d", largest, MaxSnapshot)
	}
}
