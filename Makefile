# `make help` lists the targets. After `make setup`, plain go commands work too, with no environment variables.

ENV ?= Swimmer-v2
ARGS ?=
BENCH ?= .
PACKAGES ?= ./...
FUZZTIME ?= 10s
SHARE ?= 1
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2
DOCKER ?= docker
BUILDFLAGS ?=
REGISTRY ?= ghcr.io/dbqpg
TAG ?= $(shell sed -n 's/^appVersion: //p' charts/dbqpg/Chart.yaml)
IMAGES = coordinator actor learner-cpu learner
S3_SERVER = github.com/versity/versitygw/cmd/versitygw@v1.8.0

.DEFAULT_GOAL := help
.PHONY: help setup train test python lint bench fuzz soak s3-server cuda ptx cuda-golden cuda-check cuda-check-build images images-check chart-e2e image-names clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## Fetch MuJoCo, OpenBLAS and the MJCF models (quick when they are there)
	@scripts/setup.sh

train: setup ## Train; ENV=Swimmer-v2 and ARGS="--seed 1 ..." are optional
	go run ./learner --env $(ENV) $(ARGS)

test: setup ## Vet and run every test (those for GPUs once make cuda or make ptx was run)
	go vet ./...
	go test ./...
	@scripts/test_cuda.sh
	@[ -x .deps/bin/versitygw ] || echo "test: checkpoints in buckets are not tested: run make s3-server first"
	cd helm && go vet -tags e2e ./... && go test ./...

python: setup ## Check and test the Python package; the first run fetches its environment (250 MB)
	@scripts/python.sh

lint: setup ## Check style and import rules (.golangci.yml), scripts, the Dockerfile; the first run builds the linter
	@scripts/lint.sh
	go run $(GOLANGCI_LINT) run ./...
	cd helm && go run $(GOLANGCI_LINT) run --config ../.golangci.yml --build-tags e2e ./...
	@[ ! -f .deps/cuda/include/cuda.h ] || scripts/cuda.sh go run $(GOLANGCI_LINT) run --build-tags gpu ./estimators/compute/cuda/...

bench: setup ## Run the benchmarks; BENCH=Step PACKAGES=./sim/tasks narrow it
	go test -run '^$$' -bench '$(BENCH)' $(PACKAGES)

fuzz: setup ## Fuzz every decoder for FUZZTIME (10s) each
	@scripts/fuzz.sh $(FUZZTIME)

soak: setup ## Run the fault tests in their long form (hours), and print what they did; SHARE=0.1 is a tenth
	@scripts/soak.sh $(SHARE)

s3-server: ## Build an S3 server (minutes) that the tests of checkpoints in buckets run; without it they are skipped
	GOBIN=$(CURDIR)/.deps/bin go install $(S3_SERVER)

cuda: ## Build bin/learner for GPUs, on any machine
	@scripts/setup_cuda.sh
	scripts/cuda.sh go build -tags gpu -o bin/learner ./learner

ptx: ## Compile the GPU kernels; needed after a change of one
	@scripts/ptx.sh

cuda-golden: ## Run every golden case on an emulated GPU (minutes: for every night)
	@scripts/setup_cuda.sh --compiler
	CUDA_EMULATOR_GOLDEN=all scripts/cuda.sh --emulator go test -tags gpu -count=1 -timeout 60m -v -run TestGoldenOnGPU ./learner/gradient

cuda-check-build: ## Build bin/cuda-check, all that make cuda-check runs, on any machine
	@scripts/setup_cuda.sh
	@scripts/cuda_check_build.sh

cuda-check: ## On a machine with a GPU: test, measure and report (without Go: bin/cuda-check/run.sh)
	@[ -x bin/cuda-check/run.sh ] || $(MAKE) --no-print-directory cuda-check-build
	@bin/cuda-check/run.sh

images: ## Build the chart's images with Docker (DOCKER=podman, buildah); REGISTRY and TAG are optional
	@for target in $(IMAGES); do \
		$(DOCKER) build $(BUILDFLAGS) --file charts/images/Dockerfile --target $$target \
			--tag $$(charts/images/name.sh $(REGISTRY) $(TAG) $$target) . || exit 1; \
	done

images-check: ## As root on Debian, build the images where no registry is reached, and start each
	@charts/images/check.sh

chart-e2e: ## As root, install the chart in a real cluster of one node, and use it (scripts/chart_e2e.sh; half an hour the first time)
	@scripts/chart_e2e.sh

image-names: ## List the images that make images builds, as kind load docker-image takes them
	@for target in $(IMAGES); do charts/images/name.sh $(REGISTRY) $(TAG) $$target; done

clean: ## Remove what set-up fetched and what builds left; runs/ stays
	rm -rf .deps .deps-* bin sim/tasks/assets/*.xml
