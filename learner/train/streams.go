package train

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
)

// streamsArray is the checkpoint's array of the streams, which a run has from its first batch of segments on: a row a
// stream, of equal lengths, with
//
//	steps of the current episode, its rewards' sum, whether it is partial (1) or not (0),
//	the random numbers' state (12 words of 32 bits), the observation (o numbers), the environment's state.
const streamsArray = "streams"

// The lengths of a row's first parts.
const (
	streamCounters = 3
	streamRandom   = 12
)

// numStreams returns how many streams make a batch.
func (r *Run) numStreams() int { return config.NumStreams(r.BatchSteps, r.Segment, r.FisherSamples) }

// segmentSteps returns the number of steps in the next batch of segments. In a run of so many steps the last batch has
// all that are left, which are fewer than two batches, so that it ends exactly there.
func (r *Run) segmentSteps() int {
	full := r.numStreams() * r.Segment
	if left := r.Length.Steps - r.counters.Steps; r.Length.Steps > 0 && left < 2*uint64(full) {
		return int(left)
	}
	return full
}

// gradientSteps returns how many of a batch's steps at least are for the gradient; the rest is for the Fisher
// matrix alone.
func (r *Run) gradientSteps(batch *collect.Batch) int {
	if r.Segment == 0 {
		return r.BatchSteps
	}
	return batch.Steps - (r.numStreams()*r.Segment - r.BatchSteps)
}

// streamRows returns the array of the streams, nil if there are none.
func (r *Run) streamRows() (all []float64) {
	for _, stream := range r.streams {
		state := stream.State
		partial := 0.0
		if stream.Before.Partial {
			partial = 1
		}
		all = append(all, float64(state.Step), stream.Before.Return, partial)
		for word := range streamRandom {
			all = append(all, float64(binary.LittleEndian.Uint32(state.Random[4*word:])))
		}
		for _, x := range state.Observation {
			all = append(all, float64(x))
		}
		all = append(all, state.Physics...)
	}
	return all
}

// parseStreams returns a function that sets the streams to those of an array. The collector checks the states.
func (r *Run) parseStreams(all []float64) (set func(), err error) {
	n, fixed := r.numStreams(), streamCounters+streamRandom+r.Shape.Observation
	size := len(all) / n
	if len(all)%n != 0 || size <= fixed {
		return nil, fmt.Errorf("%d elements, want %d rows of more than %d", len(all), n, fixed)
	}
	streams := make([]collect.Stream, n)
	for i := range streams {
		row := slices.Clone(all[i*size : (i+1)*size])
		state := &proto.State{Task: r.Task, Step: uint64(row[0]), Physics: row[fixed:]}
		for _, word := range row[streamCounters : streamCounters+streamRandom] {
			state.Random = binary.LittleEndian.AppendUint32(state.Random, uint32(word))
		}
		for _, x := range row[streamCounters+streamRandom : fixed] {
			state.Observation = append(state.Observation, float32(x))
		}
		before := proto.Before{Steps: int(state.Step), Return: row[1], Partial: row[2] != 0}
		streams[i] = collect.Stream{State: state, Before: before}
	}
	return func() { r.streams = streams }, nil
}
