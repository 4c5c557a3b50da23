package registry

import (
	"cmp"
	"iter"
	"slices"
)

// recent finds the runs that have changed lately without a look at all of them: a coordinator of ten thousand runs has
// hundreds who wait for news of some. It is not part of what is kept but made from it.
type recent []change

// change is that of a run at an index. Of a run's only the last holds.
type change struct {
	index uint64
	place int // in State.Runs
}

// newRecent returns the changes of the runs that there are.
func newRecent(runs []Run) recent {
	all := make(recent, len(runs))
	for i := range runs {
		all[i] = change{runs[i].Changed, i}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.index, b.index) })
	return all
}

// note adds a change, which is the latest. What holds no more is dropped once it is most.
func (r *recent) note(runs []Run, c change) {
	if *r = append(*r, c); len(*r) > 2*len(runs)+64 {
		*r = newRecent(runs)
	}
}

// ChangedSince visits the runs that have changed after an index, in the order of submission. It takes as long as there are
// changes, not runs. The runs are the state's own.
func (s *State) ChangedSince(after uint64) iter.Seq[*Run] {
	var places []int
	if after == 0 { // all
		return func(yield func(*Run) bool) {
			for i := range s.Runs {
				if !yield(&s.Runs[i]) {
					return
				}
			}
		}
	}
	for _, c := range slices.Backward(s.recent) {
		if c.index <= after {
			break
		}
		if s.Runs[c.place].Changed == c.index {
			places = append(places, c.place)
		}
	}
	slices.Sort(places)
	places = slices.Compact(places)
	return func(yield func(*Run) bool) {
		for _, place := range places {
			if !yield(&s.Runs[place]) {
				return
			}
		}
	}
}
