# `make help` lists the targets. After `make setup`, plain go commands also work, without environment variables.

ENV ?= HalfCheetah-v5
ARGS ?=
BENCH ?= .
PACKAGES ?= ./...
FUZZTIME ?= 10s
SHARE ?= 1
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2
DOCKER ?= docker
BUILDFLAGS ?=
# The packages with goroutines of their own.
RACE = ./actor/... ./coordinator/... ./internal/rollout/... ./internal/web ./learner/collect ./learner/play ./learner/session ./learner/worker \
	./proto/bus/... ./sim/external/...
REGISTRY ?= ghcr.io/dbqpg
TAG ?= $(shell sed -n 's/^appVersion: //p' charts/dbqpg/Chart.yaml)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
IMAGES = coordinator actor learner-cpu learner
S3_SERVER = github.com/versity/versitygw/cmd/versitygw@v1.8.0

.DEFAULT_GOAL := help
.PHONY: help docs setup train test race web browser python wheel wheel-check policies lint size bench fuzz soak s3-server cuda ptx cuda-golden cuda-check cuda-check-build images release release-images images-check chart chart-e2e image-names clean distclean

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## Fetch MuJoCo, OpenBLAS and the MJCF models, unless they are in place
	@scripts/setup.sh

train: setup ## Train; ENV=HalfCheetah-v5, PRESET=paper and ARGS="--seed 1 ..." are optional
	go run ./learner --env $(ENV) $(if $(PRESET),--preset $(PRESET)) $(ARGS)

test: setup ## Run go vet and all tests (GPU tests only after make cuda or make ptx)
	go vet ./...
	go test ./...
	@scripts/test_cuda.sh
	@command -v chromium >/dev/null || echo "test: the pages are not tested in a browser: run make browser first, or install Chromium"
	@[ -x .deps/bin/versitygw ] || echo "test: checkpoints in buckets are not tested: run make s3-server first"
	cd helm && go vet -tags e2e ./... && go test ./...

race: setup ## Run the tests of concurrent packages under the race detector
	go test -race -timeout 30m $(RACE)

browser: ## Fetch what the tests of the browser's pages need: npm packages, and Chromium (as root on Debian)
	@scripts/setup_browser.sh

web: ## Build the browser pages (internal/web/dist), after a change in internal/web/ui; needs no Node
	go run ./internal/web/build

docs: ## Build the documentation as a site, into site/; the first run fetches its generator (160 MB)
	@scripts/docs.sh

python: setup ## Check and test the Python package; the first run fetches its environment (250 MB)
	@scripts/python.sh

wheel: setup ## Build the Python package with the programs inside, for this machine's type, into dist/; TAG is its version
	@scripts/wheel.sh $(TAG) dist

wheel-check: ## Test the wheel in dist/ in an empty environment, without Go and the checkout; fetches Gymnasium and pandas
	@scripts/wheel_check.sh dist/dbqpg-*.whl

policies: setup ## Pack the best policy of each task in SOURCE, a directory of runs, into dist/policies/, for hub:TASK
	@scripts/venv.sh .deps/python python/requirements.txt "the environment of the Python package (250 MB)"
	@go build -o bin/ ./learner
	@PYTHONPATH=python .deps/python/bin/python scripts/policies.py bin/learner $(SOURCE) dist/policies

lint: setup ## Check style and import rules (.golangci.yml), scripts, workflows and the Dockerfile; the first run builds the linters
	@scripts/lint.sh
	go run $(GOLANGCI_LINT) run ./...
	cd helm && go run $(GOLANGCI_LINT) run --config ../.golangci.yml --build-tags e2e ./...
	@[ ! -f .deps/cuda/include/cuda.h ] || scripts/cuda.sh go run $(GOLANGCI_LINT) run --build-tags gpu ./estimators/compute/cuda/...

size: setup ## Count lines, imports against the order, flags, pages, words and repeated lines; fail above the limits (scripts/size.sh)
	@scripts/size.sh

bench: setup ## Run the benchmarks; BENCH=Step PACKAGES=./sim/tasks selects some
	go test -run '^$$' -bench '$(BENCH)' $(PACKAGES)

fuzz: setup ## Fuzz each decoder for FUZZTIME (10s)
	@scripts/fuzz.sh $(FUZZTIME)

soak: setup ## Run the fault tests in their long form (hours) and print a table of the faults; SHARE=0.1 runs a tenth
	@scripts/soak.sh $(SHARE)

s3-server: ## Build the S3 server (minutes) for the tests of checkpoints in buckets; without it they are skipped
	GOBIN=$(CURDIR)/.deps/bin go install $(S3_SERVER)

cuda: ## Build bin/learner and bin/study with GPU support, on any machine
	@scripts/setup.sh cuda
	scripts/cuda.sh go build -tags gpu -o bin/ ./learner ./learner/study

ptx: ## Compile the GPU kernels to PTX, after changing one
	@scripts/ptx.sh

cuda-golden: ## Run all golden cases on an emulated GPU (minutes; meant for nightly runs)
	@scripts/setup.sh cuda ptx
	CUDA_EMULATOR_GOLDEN=all scripts/cuda.sh --emulator go test -tags gpu -count=1 -timeout 60m -v -run TestGoldenOnGPU ./learner/gradient

cuda-check-build: ## Build bin/cuda-check, the programs of make cuda-check, on any machine
	@scripts/setup.sh cuda
	@scripts/cuda_check_build.sh

cuda-check: ## Test and measure the GPU backend on a machine with a GPU (without Go: bin/cuda-check/run.sh)
	@[ -x bin/cuda-check/run.sh ] || $(MAKE) --no-print-directory cuda-check-build
	@bin/cuda-check/run.sh

images: ## Build the chart's images with Docker (or DOCKER=podman or buildah); REGISTRY and TAG are optional
	@for target in $(IMAGES); do \
		$(DOCKER) build $(BUILDFLAGS) --build-arg VERSION=$(TAG) --build-arg REVISION=$(REVISION) --file charts/images/Dockerfile --target $$target \
			--tag $$(charts/images/name.sh $(REGISTRY) $(TAG) $$target) . || exit 1; \
	done

release: setup ## Build a release into dist/: programs, wheel, bill of materials, chart, checksums (scripts/release.sh); TAG is its version
	@scripts/release.sh $(TAG) dist

release-images: ## Build the images of a release for several platforms with docker buildx; BUILDFLAGS=--push publishes them
	REGISTRY=$(REGISTRY) VERSION=$(TAG) REVISION=$(REVISION) $(DOCKER) buildx bake --file charts/images/docker-bake.hcl $(BUILDFLAGS)

images-check: ## Build the images without access to a registry, and start each (root, on Debian)
	@charts/images/check.sh

chart-e2e: ## Test the chart in the cluster of KUBECONFIG, or in one built here (root; half an hour the first time)
	@scripts/chart_e2e.sh

image-names: ## List the names of the images that make images builds, for kind load docker-image
	@for target in $(IMAGES); do charts/images/name.sh $(REGISTRY) $(TAG) $$target; done

clean: ## Remove fetched and built files; runs/ and what takes half an hour to build (.deps/kubernetes, .deps/images) are kept
	[ ! -d .deps ] || find .deps -mindepth 1 -maxdepth 1 ! -name kubernetes ! -name images -exec rm -rf {} +
	rm -rf .deps-* bin dist site sim/tasks/assets/*.xml

distclean: clean ## Remove these too
	rm -rf .deps
