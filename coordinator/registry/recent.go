package registry

import (
	"cmp"
	"slices"
)

// recent finds the runs that have changed recently without looking at all of them: a coordinator with ten thousand
// runs has hundreds of clients waiting for changes. It is not part of the state but derived from it.
type recent []change

// change is a run's change at an index. Only the last change of each run is valid.
type change struct {
	index uint64
	place int // in State.Runs
}

// newRecent returns the changes of the given runs.
func newRecent(runs []Run) recent {
	all := make(recent, len(runs))
	for i := range runs {
		all[i] = change{runs[i].Changed, i}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.index, b.index) })
	return all
}

// note adds a change, which is the latest. Invalid ones are dropped once they are the majority.
func (r *recent) note(runs []Run, c change) {
	if *r = append(*r, c); len(*r) > 2*len(runs)+64 {
		*r = newRecent(runs)
	}
}

// ChangedSince returns the runs that have changed after an index, in the order of submission. It takes time
// proportional to the number of changes, not of runs. The runs belong to the state.
func (s *State) ChangedSince(after uint64) []*Run {
	var places []int
	for _, c := range slices.Backward(s.recent) {
		if c.index <= after {
			break
		}
		if s.Runs[c.place].Changed == c.index {
			places = append(places, c.place)
		}
	}
	slices.Sort(places)
	var runs []*Run
	for _, place := range slices.Compact(places) {
		runs = append(runs, &s.Runs[place])
	}
	return runs
}
