package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/observe"
)

func loadWorker(arguments, environment string) (*config.Worker, error) {
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	loader := config.NewWorkerLoader(flags)
	if err := flags.Parse(strings.Fields(arguments)); err != nil {
		return nil, config.Explain(flags, err)
	}
	return loader.Load(strings.Fields(environment))
}

func TestWorker(t *testing.T) {
	inDirectory(t, map[string]string{"w.yaml": "checkpoints: /runs\nlease_term: 2s\nactors: 3\n"})
	w, err := loadWorker("--coordinator http://a:1,http://b:1 --config w.yaml --metrics-listen :9464", "DBQPG_LEASE_TERM=1s DBQPG_ENV=Ant-v2")
	if err != nil {
		t.Fatal(err)
	}
	if w.Checkpoints != "/runs" || w.LeaseTerm != time.Second || w.Actors != 3 || w.MaxToKeep != 3 || w.LogLevel != "info" ||
		w.LogFormat != observe.Text || w.Listen != config.AutoListen || w.HTTPAddress() != ":9464" || len(w.Coordinators()) != 2 {
		t.Errorf("%+v", w)
	}
}

func TestBadWorkers(t *testing.T) {
	inDirectory(t, map[string]string{"env.yaml": "env: Ant-v2\n"})
	const given = "--coordinator http://h:1 --checkpoints /runs "
	for arguments, want := range map[string]string{
		"--checkpoints /runs":                         "--coordinator: give its URL",
		"--coordinator http://h:1":                    "--checkpoints: give the store",
		"--coordinator h:1 --checkpoints /runs":       "--coordinator: must be a URL such as http://127.0.0.1:7070",
		"--coordinator http://h:1 --checkpoints runs": "--checkpoints runs: must be the same directory for all workers",
		given + "--lease-term 1ms":                    "--lease-term 1ms: must be from 500ms",
		given + "--max-to-keep 0":                     "--max-to-keep 0: must be at least 1",
		given + "--actors -1":                         `"-1" is not auto or a non-negative`,
		given + "--pprof":                             "add --metrics-listen 127.0.0.1:0",
		given + "--steps 100":                         "unknown flag: --steps: the coordinator determines what a worker learns",
		given + "--lease 1s":                          "did you mean --lease-term?",
		given + "--config env.yaml":                   "env.yaml, line 1: env is not a setting",
	} {
		if _, err := loadWorker(arguments, ""); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", arguments, err, want)
		}
	}
}
