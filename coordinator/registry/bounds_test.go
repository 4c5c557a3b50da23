package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// No command takes a run's name that could not be one.
func TestRunNames(t *testing.T) {
	for _, name := range []string{"a b", "a.b", "a\x1b[31m", strings.Repeat("a", 1000)} {
		hold := Hold{Run: name, Epoch: 1}
		for _, c := range []Command{
			{Take: &Take{Learner: "l", TTL: 1, Run: name}},
			{Commit: &Commit{Hold: hold, Checkpoint: Checkpoint{SHA256: strings.Repeat("0", 64)}}},
			{End: &End{Hold: hold, State: Done}}, {End: &End{Hold: hold, State: Failed}}, {End: &End{Hold: hold, State: Queued}},
			{Steer: &Steer{Name: name, Action: Cancel}}, {Steer: &Steer{Name: name, Action: Retry}}, {Reset: &Reset{Run: name}}, {Remove: &Remove{name}},
		} {
			var r *Refusal
			if err := c.Check(); !errors.As(err, &r) || r.Code != Invalid {
				data, _ := json.Marshal(c)
				t.Errorf("%s: %v", data, err)
			}
		}
	}
}

// The longest run that commands can make is no longer than what Submit reckons with, and no experiments are admitted beyond what a
// snapshot may hold: one that is written can be read.
func TestSnapshotIsBounded(t *testing.T) {
	spec := Spec{Name: "x", Tasks: []string{"T"}, Algorithms: []string{"a"}, Estimators: []string{"e"}}
	for i := range maxAxes {
		spec.Overrides = append(spec.Overrides, Override{fmt.Sprint("s", i), []string{strings.Repeat("<", maxValue)}})
	}
	for i := range uint64(MaxAxis) {
		spec.Seeds = append(spec.Seeds, i)
	}
	runs := spec.Expand()
	text := strings.Repeat("<", maxText)
	r := runs[0]
	r.Reason, r.Lease = text, &Lease{Learner: strings.Repeat("l", maxName), NATS: text, Expires: time.Unix(1, 1).UTC(), TTL: MaxTTL.Seconds()}
	r.Start = &Checkpoint{1 << 60, strings.Repeat("0", 64), text}
	r.Checkpoint, r.Summary = r.Start, map[string]float64{}
	for i := range maxMetrics {
		r.Summary[fmt.Sprintf("%0*d", maxName, i)] = -1.2345678901234567e-300
	}
	data, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	if weight := weigh(Spec{}, []Run{r}) / (1 + MaxClients); len(data) > weight || 2*len(data) < weight {
		t.Errorf("the longest run takes %d bytes, reckoned with are %d", len(data), weight)
	}
	if data, err = json.Marshal(&spec); err != nil || len(data) > weigh(spec, nil) {
		t.Errorf("a spec takes %d bytes, reckoned with are %d; %v", len(data), weigh(spec, nil), err)
	}
	s := New()
	for i := 0; ; i++ {
		spec.Name = fmt.Sprint("x", i)
		if response := s.Apply(Command{Submit: &Submit{spec}}); response.Refusal != nil {
			if response.Refusal.Code != Full || i == 0 {
				t.Error(response.Refusal)
			}
			break
		}
	}
	if s.weight() > MaxSnapshot {
		t.Errorf("a snapshot may take %d bytes", s.weight())
	}
}
