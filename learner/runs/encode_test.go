package runs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/safetensors"
)

func exampleState() *State {
	return &State{
		Counters: Counters{
			Iteration: 7, Epoch: 2, Steps: 105_000, Episodes: 107, Elapsed: 90*time.Minute + 125*time.Millisecond,
			Best: &Best{Return: 1. / 3, Iteration: 5},
		},
		Arrays: map[string][]float64{
			"policy.params":      {1, -2, math.Pi, math.SmallestNonzeroFloat64, 5, 6, 7, 8, 9, 10, 11, 12, 13, -0.5},
			"critic.params":      {1, 2, 3},
			"critic.value.steps": {7},
			"empty":              {},
		},
		Networks: map[string][]int{"policy": {2, 3, 1}, "critic": {2, 1}},
	}
}

func exampleSettings() map[string]string {
	return map[string]string{"env": "Swimmer-v2", "batch": "15000", "seed": "1"}
}

func mustEncode(t testing.TB, state *State, settings map[string]string) []byte {
	t.Helper()
	data, err := Encode(state, settings)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	data := mustEncode(t, exampleState(), exampleSettings())
	state, settings, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := exampleState(); !reflect.DeepEqual(state, want) {
		t.Errorf("state %+v, want %+v", state, want)
	}
	if !reflect.DeepEqual(settings, exampleSettings()) {
		t.Errorf("settings %v, want %v", settings, exampleSettings())
	}
	if !bytes.Equal(mustEncode(t, state, settings), data) {
		t.Error("encoding what was decoded gives other bytes")
	}
	first := exampleState()
	first.Best = nil
	if state, _, err := Decode(mustEncode(t, first, nil)); err != nil || state.Best != nil {
		t.Errorf("a state before its first batch: best %v, %v", state.Best, err)
	}
}

// The names and shapes that docs/files.md promises.
func TestTensors(t *testing.T) {
	f, err := safetensors.Decode(mustEncode(t, exampleState(), exampleSettings()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tensor := range f.Tensors {
		got = append(got, fmt.Sprint(tensor.Name, tensor.Shape))
	}
	want := []string{"critic.0.bias[1]", "critic.0.weight[1 2]", "critic.value.steps[1]", "empty[0]", "log_std[1]",
		"policy.0.bias[3]", "policy.0.weight[3 2]", "policy.1.bias[1]", "policy.1.weight[1 3]", "sha256[32]"}
	if !slices.Equal(got, want) {
		t.Errorf("tensors %v, want %v", got, want)
	}
	weight, _ := f.Tensor("policy.1.weight")
	if values, err := weight.Values(); err != nil || !slices.Equal(values, []float64{10, 11, 12}) {
		t.Errorf("the second layer's weights are %v, %v", values, err)
	}
}

// A checkpoint must hold the exact bits, those of numbers that are not numbers too.
func TestArraysKeepBits(t *testing.T) {
	want := []float64{math.Float64frombits(0x7ff8_0000_dead_beef), math.Copysign(0, -1), math.Inf(1)}
	state, _, err := Decode(mustEncode(t, &State{Arrays: map[string][]float64{"x": want}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got := math.Float64bits(state.Arrays["x"][i]); got != math.Float64bits(want[i]) {
			t.Errorf("number %d has bits %x, want %x", i, got, math.Float64bits(want[i]))
		}
	}
}

// The checksum covers everything: no byte can change and no byte can be missing unnoticed.
func TestDecodeNoticesAnyDamage(t *testing.T) {
	data := mustEncode(t, exampleState(), exampleSettings())
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 0x10
		if _, _, err := Decode(damaged); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d of %d changed: %v", i, len(data), err)
		}
		if _, _, err := Decode(data[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d of %d bytes: %v", i, len(data), err)
		}
	}
	if _, _, err := Decode(append(bytes.Clone(data), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with a byte more: %v", err)
	}
}

// seal makes the last bytes of a file the digest of the others, as a liar would.
func seal(data []byte) []byte {
	sealed := data[:max(0, len(data)-sha256.Size)]
	sum := sha256.Sum256(sealed)
	return append(bytes.Clone(sealed), sum[:]...)
}

func TestDecodeRefusesSealedNonsense(t *testing.T) {
	valid := string(mustEncode(t, exampleState(), exampleSettings()))
	for _, c := range []struct {
		name, old, new string
		kind           error
	}{
		{"another format", format, "dbqpg checkpoint 1", ErrVersion},
		{"a negative iteration", `"iteration":"7"`, `"iteration":"-"`, ErrCorrupt},
		{"no iteration", `"iteration":"7"`, `"iteratiom":"7"`, ErrCorrupt},
		{"a strange duration", `"elapsed":"1h30m`, `"elapsed":"1x30m`, ErrCorrupt},
		{"a strange return", `"best_return":"0.`, `"best_return":"0,`, ErrCorrupt},
		{"no best iteration", `"best_iteration"`, `"best_iteratiom"`, ErrCorrupt},
		{"an array of another type", `"empty":{"dtype":"F64"`, `"empty":{"dtype":"I64"`, ErrCorrupt},
		{"an array of another shape", `"F64","shape":[0],`, `"F64","shape":[1],`, ErrCorrupt},
		{"a weight of another type", `"policy.0.weight":{"dtype":"F64"`, `"policy.0.weight":{"dtype":"I64"`, ErrCorrupt},
		{"a weight of another shape", `"shape":[3,2]`, `"shape":[2,3]`, ErrCorrupt},
		{"a weight that is flat", `"shape":[1,3]`, `"shape":[  3]`, ErrCorrupt},
		{"layers that do not fit", `"policy.0.`, `"policy.2.`, ErrCorrupt},
		{"no bias", `"policy.1.bias"`, `"policy.1.bios"`, ErrCorrupt},
		{"no deviations", `"log_std"`, `"log_stb"`, ErrCorrupt},
		{"a policy twice", `"critic.value.steps"`, `"policy.params"     `, ErrCorrupt},
	} {
		if !strings.Contains(valid, c.old) {
			t.Fatalf("%s: %q is not in the file", c.name, c.old)
		}
		if _, _, err := Decode(seal([]byte(strings.Replace(valid, c.old, c.new, 1)))); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
	}
}

func TestEncodeRefusesTooMuch(t *testing.T) {
	arrays := map[string][]float64{}
	for i := range safetensors.MaxTensors {
		arrays[strings.Repeat("x", i)] = nil
	}
	if _, err := Encode(&State{Arrays: arrays}, nil); err == nil {
		t.Error("more arrays than fit were encoded")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(mustEncode(f, exampleState(), exampleSettings()))
	f.Add(mustEncode(f, &State{}, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := Decode(data); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Errorf("error of another kind: %v", err)
		}
		data = seal(data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		state, settings, err := Decode(data)
		runtime.ReadMemStats(&after)
		if bytes, limit := after.TotalAlloc-before.TotalAlloc, 2*uint64(len(data))+40*uint64(min(len(data), safetensors.MaxHeader))+64<<10; bytes > limit {
			t.Errorf("decoding %d bytes allocates %d", len(data), bytes)
		}
		if err != nil {
			return
		}
		again, _, err := Decode(mustEncode(t, state, settings))
		if err != nil || !reflect.DeepEqual(again.Counters, state.Counters) && state.Best != nil && !math.IsNaN(state.Best.Return) {
			t.Errorf("decoded again: %+v, %v; want %+v", again, err, state)
		}
	})
}
