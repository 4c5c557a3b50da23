package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/store/storetest"
)

// The pages of runs in a bucket answer as those of the same runs in a directory, also once the runs have grown, and they look at the last
// epoch of each.
func TestBucket(t *testing.T) {
	storetest.Start(t).Setenv(t)
	bucket, err := store.Open(t.Context(), store.Scheme+storetest.Bucket+"/runs")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	stores := []store.Store{store.Local(root), bucket}
	rng := generator(t)
	tables := map[string]string{}
	put := func(key, text string) {
		t.Helper()
		for _, s := range stores {
			if err := s.Put(t.Context(), key, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	grow := func(run string, n int) {
		key := path.Join(run, progress.RowsName)
		if tables[key] == "" {
			tables[key] = "iteration,steps,return_mean\n"
		}
		from := strings.Count(tables[key], "\n") - 1
		for i := from; i < from+n; i++ {
			tables[key] += fmt.Sprintf("%d,%d,%v\n", i, 1000*(i+1), rng.NormFloat64())
		}
		put(key, tables[key])
	}
	var sources []*Directory
	var servers []*httptest.Server
	for _, s := range stores {
		sources = append(sources, NewDirectory(s))
		servers = append(servers, httptest.NewServer(Handler(Config{Source: sources[len(sources)-1]})))
		t.Cleanup(servers[len(servers)-1].Close)
	}
	get := func(server *httptest.Server, address string) string {
		t.Helper()
		response, err := http.Get(server.URL + "/data/" + address)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %d: %s", address, err, response.StatusCode, body)
		}
		return string(body)
	}
	same := func() {
		t.Helper()
		for _, s := range sources { // the next scan is not awaited otherwise
			s.mu.Lock()
			s.next, s.stale = s.now(), s.now()
			s.mu.Unlock()
		}
		name := url.Values{"name": {"sweep/Swimmer-v5/npg-mc-s1"}}.Encode()
		for _, address := range []string{
			"runs?sort=name", "runs?group=estimator", "curves?q=&axis=steps", "curves?q=estimator%3Dmc&q=estimator%3Duapg&metric=return_mean&statistic=iqm",
			"run?" + name, "rows?" + name, "log?" + name, "file?" + name + "&file=" + progress.RowsName,
		} {
			want, got := timeless(t, get(servers[0], address)), timeless(t, get(servers[1], address))
			if got != want {
				t.Errorf("%s: the bucket's %s; the directory's %s", address, got, want)
			}
			if len(want) < 40 {
				t.Errorf("%s: only %s", address, want)
			}
		}
	}
	for i, estimator := range []string{"mc", "uapg"} {
		for seed := range 2 {
			run := fmt.Sprintf("sweep/Swimmer-v5/npg-%s-s%d/epoch-1", estimator, seed+1)
			put(run+"/config.yaml", fmt.Sprintf("env: Swimmer-v5\nalgorithm: npg\nestimator: %s\nseed: %d\niterations: 50\n", estimator, seed+1))
			grow(run, 3+i+seed)
		}
	}
	const first = "sweep/Swimmer-v5/npg-mc-s1"
	put(first+"/epoch-1/"+progress.EvaluationsName, "iteration,steps,episodes,mean_action_return\n0,1000,10,1.5\n")
	put(first+"/logs/epoch-1.log", `time=2026-11-22T20:00:00Z level=WARN msg="slow actors"`+"\n")
	same()
	grow(first+"/epoch-1", 4)
	put(first+"/epoch-2/config.yaml", "env: Swimmer-v5\nalgorithm: npg\nestimator: mc\nseed: 1\niterations: 50\n") // another worker has taken it over
	tables[first+"/epoch-2/"+progress.RowsName] = tables[first+"/epoch-1/"+progress.RowsName]
	grow(first+"/epoch-2", 2)
	same()
	if answer := get(servers[1], "rows?name="+url.QueryEscape(first)); !strings.Contains(answer, `"rows":9`) {
		t.Errorf("after the last worker's iterations: %s", answer)
	}
}

// timeless returns an answer without its times, which differ with the stores.
func timeless(t *testing.T, answer string) string {
	t.Helper()
	var value any
	if json.Unmarshal([]byte(answer), &value) != nil {
		return answer // no JSON
	}
	var strip func(any)
	strip = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, name := range []string{"now", "heard", "modified", "eta"} {
				delete(value, name)
			}
			for _, v := range value {
				strip(v)
			}
		case []any:
			for _, v := range value {
				strip(v)
			}
		}
	}
	strip(value)
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
