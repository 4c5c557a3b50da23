# `make help` lists the targets. After `make setup`, plain go commands work too, with no environment variables.

ENV ?= Swimmer-v2
ARGS ?=
BENCH ?= .
PACKAGES ?= ./...
FUZZTIME ?= 10s
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2

.DEFAULT_GOAL := help
.PHONY: help setup train test lint bench fuzz clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 8

setup: ## Fetch MuJoCo, OpenBLAS and the MJCF models (quick when they are there)
	@scripts/setup.sh

train: setup ## Train; ENV=Swimmer-v2 and ARGS="--seed 1 ..." are optional
	go run ./learner --env $(ENV) $(ARGS)

test: setup ## Vet and run every test
	go vet ./...
	go test ./...

lint: setup ## Check style and the import rules (.golangci.yml); the first run builds the linter
	go run $(GOLANGCI_LINT) run ./...

bench: setup ## Run the benchmarks; BENCH=Step PACKAGES=./sim/tasks narrow it
	go test -run '^$$' -bench '$(BENCH)' $(PACKAGES)

fuzz: setup ## Fuzz every decoder for FUZZTIME (10s) each
	@scripts/fuzz.sh $(FUZZTIME)

clean: ## Remove what set-up fetched and what builds left; runs/ stays
	rm -rf .deps .deps-* bin sim/tasks/assets/*.xml
