# Burnish. `make` or `make help` lists what there is; CI runs `make check`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
export GOTOOLCHAIN := local

VERSION := $(shell cat VERSION)
LDFLAGS := -s -w -X main.version=$(VERSION)
# How everything but the race tests is compiled: the same flags in every step,
# because other flags would compile the whole Temporal server once more. What tests
# build themselves has these flags, too (proc.Compile).
BUILD   := CGO_ENABLED=0 GOFLAGS="$(shell go env GOFLAGS) -trimpath -buildvcs=false"
SERVER  := cd deploy/devserver && $(BUILD)
TOOL    := $(BUILD) go tool -modfile=deploy/tools/go.mod
SUMMARY := bin/test-summary.txt
MODULES := . deploy/devserver deploy/packages deploy/tools
WALKS   ?= 5000
# Of which commit an upgrade begins: of the last release, or of one some changes ago.
UPGRADE_FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo HEAD~20)
# What -fuzztime takes: so many inputs to each parser, about half a minute; or 60s.
FUZZ    ?= 100000x
# How many states the explorer of the whole system visits at most in `make soak`.
STATES  ?= 2000000
# How many turnovers the simulation of devices with faults has in `make soak`.
TURNOVERS ?= 1000000
PARSERS := ./internal/hardware/nvme/nvmecli ./internal/pci ./internal/nova ./workflows/client

# How long processes of a Temporal cluster are killed and stopped in `make test-cluster`.
CHAOS ?= 10m
# Of the end-to-end tests, those that `make cluster-check` runs on a cluster, too.
SHORT := ^Test(Turnover|KillServerAndWorker|ADatabasePutBackMeetsTheHostsJournal|OneOfEightCleansIsCarriedOut|WhatTemporalKeepsIsEncrypted)$$

# Seconds that each part of `make check` may take on two cores.
BUDGETS := tidy-check:300 build:900 lint:420 test:2100 cluster-check:300 demo:180

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build simulator ## clean a device before your eyes, with a crash in between (needs nothing else)
	@$(BUILD) go run ./internal/testkit/demo $(if $(DEVICE),-device "$(DEVICE)")

# The time of everything in the packages: that of the last commit.
.PHONY: packages
packages: build ## make Debian and RPM packages, OCI images and SBOMs of the programs in bin/packages
	@rm -rf bin/packages
	@export SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}"; cd deploy/packages; \
		$(BUILD) go run . -root ../.. -out ../../bin/packages

.PHONY: man
man: build ## write the man pages of burnish into bin/man/man1
	@bin/burnish man bin/man/man1

.PHONY: simulator
simulator: ## build bin/burnish-oneview-sim, a simulated appliance of OneView to try shared pools with
	@mkdir -p bin
	@$(BUILD) go build -o bin/burnish-oneview-sim ./internal/testkit/cmd/oneviewsim

.PHONY: up
up: build ## start the server and a worker in the background
	@$(BUILD) go run ./internal/testkit/demo -up

.PHONY: down
down: ## stop what `make up` started
	@$(BUILD) go run ./internal/testkit/demo -down

.PHONY: build
build: ## build bin/burnish, bin/burnish-worker and bin/burnish-devserver
	@mkdir -p bin
	@[ -e bin/burnish-devserver ] || echo "the first build of bin/burnish-devserver, a whole Temporal server, takes about 5 minutes"
	@$(BUILD) go build -ldflags "$(LDFLAGS)" -o bin/burnish ./starter
	@$(BUILD) go build -ldflags "$(LDFLAGS)" -o bin/burnish-worker ./worker
	@$(SERVER) go build -ldflags "$(LDFLAGS)" -o ../../bin/burnish-devserver .

# The servers of a cluster come from burnish-devserver's module, so that both have one version.
.PHONY: cluster
cluster: build ## build bin/burnish-cluster, a Temporal cluster on PostgreSQL with the flags of burnish-devserver, for tests
	@$(SERVER) go build -ldflags "-s -w" -o ../../bin/temporal-server go.temporal.io/server/cmd/server
	@$(SERVER) go build -ldflags "-s -w" -o ../../bin/temporal-sql-tool go.temporal.io/server/cmd/tools/sql
	@$(BUILD) go build -o bin/burnish-cluster ./internal/testkit/cmd/cluster

# Tested beside the others, which wait a lot: the machine is pure, and a device's workflow runs one
# coroutine at a time. The drivers of disks and drives move bytes, for which the race detector takes
# up to eight times as long, and that of servers is interrupted at each of its requests: they come
# first of the rest, with those that wait for OpenStack's services and a broker.
PLAIN := ./internal/device ./internal/lifecycle ./workflows/lifecycle ./internal/testkit/explorer
SLOWEST := ./internal/hardware/redfish ./internal/inventory/placement ./internal/hardware/nvme ./internal/hardware/block ./internal/nova
# The end-to-end tests take longest, so that they begin at once. What they test are programs
# that are built without the race detector.
E2E   := ./internal/testkit/e2e
# Mutants are built without it, too.
MUTANTS := ./internal/testkit/mutation
# Tested with the race detector: what shares memory between goroutines, and imports no SDK, because
# all that it imports is compiled once more. `make soak` runs every package with it.
RACED := ./internal/hardware ./internal/hardware/script ./internal/host ./internal/inventory
# Guests and machines that take minutes, for what other tests show as well in their own way: in `make soak`.
LONG  := ^Test(Guest(LosesPower|NVMe|NVMeLosesPower|NVMeIsRenamed|Block|MemoryOfACard)|PackagesAtWork|ProgramsAreReproducible)$$
# Tests that kill processes of a cluster one by one.
CLUSTER := ^TestCluster
# `make lint` vets, with more checks: go test need not vet again, and each dependency with it.
TEST  := go test -vet=off -count=1 -json

# Tests of chance, which kill, freeze or shuffle at random: one failure of theirs may be the
# one in a thousand that they look for. They are never run a second time.
ONCE := ^Test(Kill|Walk|Explore|Random|Frozen|Planted|Interleave|Any)

# deploy/test.sh runs the tests of all modules. gotestsum says what failed, and runs each of up to
# three tests that failed once more by itself; testsum counts. Results are never cached (-count=1):
# many tests run programs that Go does not track. What the tests and their programs collect less
# often (GOGC) is memory that the machine has.
EVENTS := bin/test-events.json
RERUNS := bin/test-reruns.txt
.PHONY: test
test: build ## run every test; BURNISH_TEST_REQUIRE=all makes a skip a failure
	@./deploy/setup-test.sh </dev/null
	@rm -f $(SUMMARY) $(EVENTS) $(RERUNS)
	@$(BUILD) go build -o bin/testsum ./internal/testkit/cmd/testsum
	@$(BUILD) go build -modfile=deploy/tools/go.mod -o bin/gotestsum gotest.tools/gotestsum
	@race=-race; if ! command -v gcc >/dev/null; then \
		[ "$${BURNISH_TEST_REQUIRE:-}" != all ] || { echo "the race detector needs gcc"; exit 1; }; \
		echo "no gcc: testing without the race detector"; race=; \
	fi; \
	require=; [ "$${BURNISH_TEST_REQUIRE:-}" != all ] || require=-no-skips; status=0; \
	export E2E='$(E2E)' PLAIN='$(PLAIN)' SLOWEST='$(SLOWEST)' MUTANTS='$(MUTANTS)' RACED='$(RACED)'; \
	export LONG='$(LONG)|$(CLUSTER)' ONCE='$(ONCE)' TEST='$(TEST)' RACE=$$race; \
	GOGC=400 bin/gotestsum --format pkgname --rerun-fails=1 --rerun-fails-max-failures=3 \
		--rerun-fails-abort-on-data-race --rerun-fails-report $(RERUNS) --jsonfile $(EVENTS) \
		--raw-command -- ./deploy/test.sh </dev/null || status=$$?; \
	bin/gotestsum tool slowest --threshold 10s --jsonfile $(EVENTS) || status=1; \
	[ ! -s $(RERUNS) ] || { echo "unsteady where fewer failures than runs; mend them:"; cat $(RERUNS); }; \
	bin/testsum -o $(SUMMARY) -status $$status $$require $(EVENTS)

# They have other limits than `make test`, because a database on a disk is slower than memory.
ON_CLUSTER = BURNISH_DEVSERVER=$(CURDIR)/bin/burnish-cluster BURNISH_CHAOS=$(CHAOS) $(BUILD) go test -vet=off -count=1

.PHONY: test-cluster
test-cluster: cluster ## the end-to-end tests on a Temporal cluster on PostgreSQL, then CHAOS (10m) of kills and stops under turnovers
	@./deploy/setup-test.sh </dev/null
	$(ON_CLUSTER) -timeout 2h -skip '$(LONG)|$(CLUSTER)' $(E2E)
	$(ON_CLUSTER) -timeout 1h -run '$(CLUSTER)' -v $(E2E)

.PHONY: cluster-check
cluster-check: CHAOS := 60s
cluster-check: cluster ## four minutes of test-cluster
	@./deploy/setup-test.sh </dev/null
	@$(ON_CLUSTER) -timeout 8m -run '$(SHORT)|$(CLUSTER)' -v $(E2E)

# Those that start no server, emulator or guest, and need no root.
SLOW := testkit/(e2e|site|mutation|bench|guest|nvmesim|openstack|messagebus)|hardware/(block|nvme|script)$$|hardware/nvme/privileged|inventory/(placement|backends)|internal/nova|^burnish/worker
.PHONY: test-unit
test-unit: ## the tests that need neither root nor a server, in less than two minutes
	@go test -count=1 $$(go list ./... | grep -vE '$(SLOW)')

.PHONY: lint
lint: lint-go lint-generated ## check style, layers, determinism and generated files

.PHONY: lint-go
lint-go:
	@$(TOOL) golangci-lint run ./...
	@for module in devserver packages; do (cd deploy/$$module && \
		$(BUILD) go tool -modfile=../tools/go.mod golangci-lint run --config ../../.golangci.yml ./...) || exit 1; done
	@$(TOOL) workflowcheck -config deploy/tools/workflowcheck.yaml -test=false ./workflows/...
	@found=$$($(TOOL) deadcode -test ./...); \
	dead=$$(echo "$$found" | grep -v 'unreachable func: Example' || true); \
	[ -z "$$dead" ] || { echo "$$dead"; exit 1; } # an example without output is compiled and never run

# Compares before with after rather than with the last commit, so that it is
# also right in a tree that is being worked on.
.PHONY: lint-generated
lint-generated:
	@before=$$(mktemp); after=$$(mktemp); trap 'rm -f "$$before" "$$after"' EXIT; \
	state() { git ls-files -z -co --exclude-standard -- '*.go' '*.md' | sort -z | xargs -0 sha256sum; }; \
	state >"$$before"; $(MAKE) mocks docs; state >"$$after"; \
	if ! diff "$$before" "$$after"; then echo "generated files were stale: they are fresh now; commit them"; exit 1; fi

# Every part runs, so that one failure does not hide the next; a part that
# hangs ends at twice its budget.
.PHONY: check
check: ## everything CI runs: tidy, build, lint, test, cluster-check, demo, each within its budget
	@rm -f $(SUMMARY); failed=; report=; \
	for part in $(BUDGETS); do \
		name=$${part%%:*}; budget=$${part##*:}; verdict=ok; began=$$SECONDS; \
		echo "== $$name"; \
		timeout --foreground --kill-after=30 $$((budget * 2)) $(MAKE) "$$name" </dev/null || verdict=FAILED; \
		took=$$((SECONDS - began)); \
		if [ $$took -gt $$budget ]; then verdict="$$verdict, OVER BUDGET"; fi; \
		[ "$$verdict" = ok ] || failed=1; \
		report+=$$(printf '%-13s %5d s of %5d s  %s' "$$name" $$took $$budget "$$verdict")$$'\n'; \
	done; \
	echo; printf '%s' "$$report"; \
	if [ -e $(SUMMARY) ]; then cat $(SUMMARY); else echo "the tests did not run"; failed=1; fi; \
	[ -z "$$failed" ]

.PHONY: tidy
tidy: ## tidy every module
	@for module in $(MODULES); do (cd $$module && go mod tidy); done

.PHONY: tidy-check
tidy-check:
	@status=0; for module in $(MODULES); do (cd $$module && go mod tidy -diff) || status=1; done; exit $$status

.PHONY: bench
bench: cluster ## measure binds, cleans and listings against a real server
	go run ./internal/testkit/bench

.PHONY: replay
replay: ## replay the recorded histories against the present workflows
	go test ./workflows -run Replay

.PHONY: histories
histories: build ## record histories from this code, for later replays
	@./deploy/histories.sh

.PHONY: soak
soak: ## random walks (WALKS, 5000), STATES of the explorer (2 million), TURNOVERS of the simulation (1 million), every mutation, a kill after every write to the inventory, a lost database with 1,000 devices, an upgrade from UPGRADE_FROM, `make test-cluster`, FUZZ inputs to each parser (100000x), the race detector everywhere
	go test -race -count=1 -timeout 60m $$(go list ./... | grep -vxF "$$(go list $(E2E) $(MUTANTS))")
	go test -count=1 -timeout 20m -parallel 1 -run '$(LONG)' $(E2E)
	BURNISH_DRILL=1000 go test -count=1 -timeout 30m -run '^TestTheDatabaseIsLost$$' -v $(E2E)
	BURNISH_UPGRADE_FROM=$(UPGRADE_FROM) go test -count=1 -timeout 20m -run '^TestUpgrade' $(E2E)
	$(MAKE) test-cluster
	cd deploy/packages && go test -count=1 -timeout 20m ./...
	go test ./workflows/lifecycle -run 'TestWalk$$' -walks $(WALKS) -count=1 -timeout 0 -v
	BURNISH_EXPLORE_STATES=$(STATES) go test ./internal/testkit/explorer -run '^TestExplore' -parallel 2 -count=1 -timeout 6h -v
	BURNISH_EXPLORE_STATES=$(STATES) go test ./workflows/instance -run '^TestExplore' -parallel 2 -count=1 -timeout 6h -v
	BURNISH_KILLS=all go test ./internal/testkit/e2e -run '^Test(Kill|Random)' -count=1 -timeout 6h -v
	BURNISH_SIMULATE_TURNOVERS=$(TURNOVERS) go test ./internal/testkit/explorer -run '^TestSimulate' -count=1 -timeout 2h -v
	BURNISH_MUTATIONS=all go test $(MUTANTS) -count=1 -timeout 2h
	BURNISH_MUTATIONS=explored go test $(MUTANTS) -run Explore -count=1 -timeout 2h -v
	@for package in $(PARSERS); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test $$package -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ) -fuzzminimizetime 20x; \
		done; \
	done

.PHONY: mocks
mocks: ## write the mocks again
	@go generate -run mockgen ./...

.PHONY: docs
docs: ## write the generated parts of the README and docs again
	@go generate -skip mockgen ./...
