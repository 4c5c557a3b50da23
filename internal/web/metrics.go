package web

import (
	"reflect"
	"strings"
)

// metricsOf describes the columns of a row, by its struct tags, as docs/metrics.md does.
func metricsOf(row any) []metric {
	var all []metric
	t := reflect.TypeOf(row)
	for i := range t.NumField() {
		tags := t.Field(i).Tag
		group, _, grouped := strings.Cut(tags.Get("tag"), "/")
		if !grouped {
			group = "run"
		}
		all = append(all, metric{tags.Get("csv"), group, tags.Get("help")})
	}
	return all
}
