package web

import (
	"reflect"
	"strings"
)

// metric describes a column of progress.csv or, with the prefix evaluation/, of evaluations.csv.
type metric struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Help  string `json:"help"`
}

// metricsOf describes the columns of a row, by its struct tags, as docs/metrics.md does: those that TensorBoard shows.
func metricsOf(row any, prefix string) []metric {
	var all []metric
	t := reflect.TypeOf(row)
	for i := range t.NumField() {
		tags := t.Field(i).Tag
		if group, _, shown := strings.Cut(tags.Get("tag"), "/"); shown {
			all = append(all, metric{prefix + tags.Get("csv"), group, tags.Get("help")})
		}
	}
	return all
}
