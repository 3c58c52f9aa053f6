# The daily loop. Every target first installs what is missing (tools/deps.sh; nothing to do: half a second).
.DEFAULT_GOAL := all
MAKEFLAGS += --no-print-directory
PYTHON := python3
VENV := third_party/venv-main/bin/python
RUN := $(PYTHON) tools/run_tests.py

# What the formatter and the header check look at.
SOURCES = $(shell find src include tests bench -name '*.[ch]' -o -name '*_shim.cc' 2>/dev/null)

.PHONY: all help deps deps-build deps-tests configure asan tsan clang check test test-full demo bench sim \
        ci lint format docs clean

all: build/build.ninja            ## build build/lake
	@echo "make: building build/lake"
	@ninja -C build -k 0 lake

help:                             ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

deps: deps-tests                  ## install everything, the tests' needs included
deps-build:
	@tools/deps.sh
deps-tests:
	@tools/deps.sh --tests

build/build.ninja: | deps-build
	@mkdir -p build; cmake --preset default >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
build/%/build.ninja: | deps-build
	@mkdir -p $(@D); cmake --preset $* >$(@D)/configure.log 2>&1 || { cat $(@D)/configure.log; exit 1; }

asan: build/asan/build.ninja      ## build the unit tests under ASan and UBSan
	@echo "make: building the unit tests under ASan and UBSan"
	@ninja -C build/asan -k 0 unit_tests
tsan: build/tsan/build.ninja      ## build the concurrency tests under TSan
	@echo "make: building the concurrency tests under TSan"
	@targets="$$($(RUN) --list-tsan)"; [ -z "$$targets" ] || ninja -C build/tsan -k 0 $$targets
clang: build/clang/build.ninja    ## build everything with clang
	@echo "make: building with clang"
	@ninja -C build/clang -k 0

# Each of these ends with one line: N passed, N failed, N skipped. A build that failed fails them too,
# after what could be built has run.
check: deps-tests                 ## static checks, unit tests under ASan, concurrency tests under TSan
	@$(RUN) --static --build asan --build tsan --unit --pytest tests/tools
test: deps-tests                  ## check, end to end and against other implementations
	@$(RUN) --static --build default --build asan --build tsan --unit \
	    --pytest tests/tools tests/e2e tests/interop tests/rollout python/tests
test-full: deps-tests             ## the same with the full counts; hours
	@LAKE_TEST_FULL=1 $(RUN) --static --build default --build asan --build tsan --unit \
	    --pytest tests/tools tests/e2e tests/interop tests/rollout python/tests

demo: deps-tests all              ## start lake, load real data, run SQL, show the result
	@LAKE_BIN=$(CURDIR)/build/lake $(VENV) tools/demo.py
bench: deps-tests all             ## measure, as ratios to the reference; writes build/bench.json
	@ninja -C build lance_scan lance_write rollout_adds rollout_load rollout_reads rollout_upkeep s3_memory sql_run grow_tool
	@$(VENV) bench/run.py $(if $(SMOKE),--smoke)
sim: build/build.ninja            ## the simulators: SEED=n replays one, SEEDS=n runs many
	@ninja -C build lake_sim lake_sim_rollout
	@build/tests/lake_sim $(if $(SEED),$(SEED) 1 trace,1 $(or $(SEEDS),1000))
	@build/tests/lake_sim_rollout $(if $(SEED),$(SEED) 1 trace,1 $(or $(SEEDS),200))

lint: build/clang/build.ninja     ## clang-tidy and cppcheck
	@$(PYTHON) tools/lint.py build/clang
ci: deps-tests                    ## everything CI runs
	@$(MAKE) clang lint
	@$(MAKE) test

format: deps-build                ## rewrite the sources in the house style
	@clang-format -i $(SOURCES)
docs: deps-build                  ## write docs/SETTINGS.md and docs/ERRORS.md
	@$(PYTHON) tools/gen_docs.py
clean:                            ## remove build/
	@rm -rf build
