# Everything a developer does, from a fresh clone with nothing but Python >= 3.11 and a C++ compiler.
# Every target sets up what it needs first: `make test` on a new machine is one command.
#   VENV=path   use another virtual environment than .venv
#   ARGS='...'  more arguments for the tool behind a target, e.g. make test ARGS='-k fusion'

VENV ?= .venv
PY := $(VENV)/bin/python
ARGS ?=
NATIVE := $(shell find cpp runtime -type f \( -name '*.cc' -o -name '*.h' -o -name '*.hpp' -o -name '*.map' -o -name '*.txt' \) 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-cpp test-gpu integrations wheels test-wheels matrix versions soak soak-serve test-kserve conformance models programs networks hostile sweeps lint tidy format golden site bench growth shapes works size clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The runtime is compiled alike in place, for its tests and as the README says: once for all three, where there is a
# cache of compiled files (scripts/setup installs one). Whether a warning fails changes nothing in what comes out.
setup test: export CMAKE_CXX_COMPILER_LAUNCHER = $(shell command -v ccache 2>/dev/null)
setup test: export CCACHE_DIR = $(CURDIR)/.cache/ccache
setup test: export CCACHE_DEPEND = 1
setup test: export CCACHE_IGNOREOPTIONS = -Werror

setup: $(VENV)/.stamp-project ## create the virtual environment and build the runtime in place

# The tools and libraries: installed again only when their list or the script changes.
$(VENV)/.stamp-tools: scripts/setup scripts/requirements.txt scripts/requirements-build.txt bindings/node/package-lock.json
	@VENV=$(VENV) scripts/setup tools

# The project itself, in place: built again only when native sources or the build files change.
$(VENV)/.stamp-project: $(VENV)/.stamp-tools pyproject.toml runtime/pyproject.toml $(wildcard CMakeLists.txt) $(NATIVE)
	@VENV=$(VENV) scripts/setup project

demo: setup ## package a sentence encoder with real weights; run it from C++ and from Python
	@VENV=$(VENV) scripts/demo $(ARGS)

test: setup ## every test: Python, C++, README; without what sanitizers run, too: make test ARGS=--rest
	@VENV=$(VENV) scripts/test $(ARGS)

test-fast: setup ## the tests that take seconds (pre-commit runs these)
	@$(PY) -m pytest -m 'not slow' -x -q $(ARGS)

test-cpp: setup ## the C++ tests under a CMake preset: make test-cpp ARGS=asan-ubsan
	@VENV=$(VENV) scripts/test-cpp $(or $(ARGS),asan-ubsan)

test-gpu: ## what needs a GPU, with the Python, torch and Triton that are there
	@scripts/test-gpu $(ARGS)

matrix: setup ## the Python tests three times, on other instruction sets and seeds (long): ARGS='tests/conformance'
	@VENV=$(VENV) scripts/matrix $(ARGS)

versions: setup ## a part of the Python tests with other versions of torch and Triton (hours): ARGS='2.15.0 -- tests/frontend'
	@VENV=$(VENV) scripts/versions $(ARGS)

soak: setup ## 64 sessions, 8 threads, mixed load with failures: make soak ARGS='--minutes 10'
	@PATH="$(abspath $(VENV))/bin:$$PATH" && cmake --preset release >/dev/null && \
	  cmake --build --preset release --target soak && \
	  LD_LIBRARY_PATH=build/release/cpp/tests/fake_driver build/release/cpp/tests/soak $(ARGS)

soak-serve: setup ## wrong clients, reloads and slow ones ask aot-serve: ARGS='--serve-seconds 600'
	@$(PY) -m pytest tests/serve/test_faults.py tests/serve/test_grpc_faults.py $(or $(ARGS),--serve-seconds 600)

test-kserve: setup ## KServe's own client asks aot-serve; it is installed into build/kserve
	@VENV=$(VENV) scripts/kserve build/kserve
	@$(PY) -m pytest tests/serve/test_kserve.py --kserve build/kserve/bin/python $(ARGS)

conformance: setup ## every operator row, and PyTorch's OpInfo samples, on every backend
	@$(PY) -m pytest tests/conformance tests/backends/test_plain.py --sweeps --executors=all $(ARGS)
	@$(PY) -m tests.conformance.opinfo.sweep --executor cpu:x86-64-v3 --samples 2
	@$(PY) -m tests.conformance.opinfo.sweep --executor cpu:x86-64-v3 --dtypes float32,bfloat16,int64,bool
	@$(PY) -m tests.conformance.opinfo.sweep --executor triton --samples 2
	@$(PY) -m tests.conformance.opinfo.sweep --executor cpu:x86-64-v3 --reference --samples 2
	@$(PY) -m tests.conformance.opinfo.sweep --executor lower --errors
	@$(PY) -m tools.operators

models: setup ## architectures of four libraries, packaged and compared: benchmarks/results/models.md
	@$(PY) -m tests.models.run $(ARGS)

programs: setup ## thousands of random programs against eager: benchmarks/results/programs.md
	@$(PY) -m tests.programs.run $(ARGS)

networks: setup ## random networks timed beside eager, in turn: ARGS='--first 1000 --count 100 --least 0.003'
	@$(PY) -m benchmarks.networks.run $(ARGS)

hostile: setup ## packages changed to do harm, opened and run under sanitizers: ARGS='--count 100000'
	@VENV=$(VENV) scripts/hostile $(ARGS)

sweeps: setup ## every case and level of the vector library, both backends' templates, the examples, … (`make test` samples)
	@$(PY) -m pytest tests/backends tests/examples tests/frontend tests/growth tests/ir tests/lowering tests/models \
	  tests/programs tests/runtime tests/shapes tests/works -n auto --sweeps $(ARGS)

integrations: setup ## a Ray of four workers, one killed; KServe's server: each in an environment of its own (minutes)
	@VENV=$(VENV) scripts/environment
	@$(PY) -m pytest tests/runtime/integrations --environments build/environments $(ARGS)

wheels: ## the sdists and wheels of a release, into dist/: ARGS=FOLDER, PYTHONS='python3.11 …'
	@scripts/wheels $(ARGS)

test-wheels: setup wheels ## install them in environments of their own, and use what is installed (minutes)
	@$(PY) -m pytest tests/scripts/test_wheels.py --wheels $(or $(ARGS),dist)

lint: setup ## ruff, mypy, clang-format; changes nothing
	@VENV=$(VENV) scripts/lint

tidy: setup ## clang-tidy over the runtime's sources (minutes)
	@VENV=$(VENV) scripts/lint --tidy

format: setup ## format Python and C++ in place
	@VENV=$(VENV) scripts/lint --fix

golden: setup ## rewrite the expected texts of golden tests; review the diff like code
	@$(PY) -m pytest -m golden --update-golden $(ARGS)

site: setup ## the documentation site, into build/site: ARGS=FOLDER
	@$(PY) -m tools.site.build $(ARGS)

bench: setup ## time the examples on this machine: package, load, run
	@VENV=$(VENV) scripts/bench $(ARGS)

growth: setup ## every operator at n, 4n, 16n, 64n beside eager: ARGS='--device cuda --only sort'
	@$(PY) -m benchmarks.growth.run $(ARGS)

shapes: setup ## random shapes, times and errors beside eager: ARGS='--device cuda --seed 1 --count 400'
	@$(PY) -m benchmarks.shapes.run $(ARGS)

works: setup ## a graph network, a recommender, experts, an LSTM beside eager: ARGS='--device cuda --jobs 4'
	@$(PY) -m benchmarks.works.run $(ARGS)

size: $(VENV)/.stamp-tools ## the table that says how large and how well kept the code is
	@$(PY) -m tools.size $(ARGS)

clean: ## remove everything that a target above creates, but not the virtual environment
	@rm -rf build dist out .cache .benchmarks .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find aot runtime tests tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@rm -f $(VENV)/.stamp-project
