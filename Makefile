# Two commands on a fresh machine: `make demo` builds, installs into .venv and trains; `make test` runs every test.

VENV     := .venv
PYTHON   := $(VENV)/bin/python
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(VIRTUAL_ENV)/bin:$(HOME)/.cargo/bin:$(PATH)
# Minutes that check-faults and soak take.
MINUTES  ?= 30
# Inputs of each target of fuzz.
INPUTS   ?= 1000000
# Of check-wheel, as tools/check_wheel.sh explains; unset: all.
ENVIRONMENTS ?=
# PASSES=1 builds the extension in a third of the time, for work on its code, and as demo does; short calls are slower then.
# PASSES=0 builds it as the Rust tests are built, with whose crates it then shares all that is compiled; all calls are slower.
PASSES   ?= 2
# What pytest shall run: `make test-python TESTS=tests/cli`; unset: all.
TESTS    ?=
SOURCES  := $(shell find rust \( -name tests -o -name examples -o -name fuzz -o -name ringroad-web \) -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print) \
            Cargo.toml Cargo.lock tools/build.sh tools/train.py

.DEFAULT_GOAL := help
.PHONY: help build demo test test-rust test-python check check-all check-memory check-faults fuzz soak bench notebooks docs \
        playground wheel check-wheel fmt clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml tools/install.sh
	tools/install.sh $(VENV)
	touch $@

build: ## Build the extension and install the package into .venv (5 minutes the first time)
build: $(VENV)/.built$(filter 0 1,$(PASSES))

$(VENV)/.built: $(VENV)/.installed $(SOURCES)
	rm -f $@?
	tools/build.sh $(VENV)

$(VENV)/.built1: $(VENV)/.installed $(SOURCES)
	rm -f $(VENV)/.built*
	@echo "building the extension in one pass (4 minutes the first time)"
	@CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 PIP_QUIET=1 maturin develop --release --quiet
	@touch $@

$(VENV)/.built0: $(VENV)/.installed $(SOURCES)
	rm -f $(VENV)/.built*
	PIP_QUIET=1 maturin develop --quiet
	@touch $@

demo: $(or $(wildcard $(VENV)/.built),$(VENV)/.built1) ## Train a model on real data with 4 ranks, over ringroad and over gloo
	$(PYTHON) examples/10_ddp_digits.py --plot demo.png

ifdef SET
test: build
	tools/test.sh $(SET)
else
test: test-rust test-python ## Run the tests of Rust and Python; SET=playground|torch|gpu|frameworks runs others (tools/test.sh)
endif

test-rust: $(VENV)/.for-tests ## Run the Rust tests
	RINGROAD_CACHE=none RINGROAD_TEST_REQUIRE_UCX=1 cargo test --workspace --exclude ringroad-web --quiet

test-python: build $(VENV)/.for-tests ## Run the Python tests
	RINGROAD_TEST_REQUIRE_UCX=1 $(PYTHON) -m pytest -q --durations=25 --durations-min=5 $(TESTS)

# Tests run over both the system's UCX and the wheel's, and put up firewalls between hosts that root can emulate.
$(VENV)/.for-tests: $(VENV)/.installed
	$(PYTHON) -m pip install --quiet 'libucx-cu12>=1.18'
	python3 -c 'import ctypes; ctypes.CDLL("libucp.so.0")' 2>/dev/null || tools/apt.sh libucx0
	[ "$$(id -u)" != 0 ] || command -v nft >/dev/null || tools/apt.sh nftables
	touch $@

check: $(VENV)/.installed ## Run all checks but the tests: formats, lints, types, documentation, the core as WebAssembly
	cargo fmt --all --check
	cargo fmt --manifest-path rust/fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	cargo clippy -p ringroad-runtime --no-default-features --all-targets --quiet -- -D warnings
	rustup target list --installed | grep -q wasm32-unknown-unknown || rustup target add wasm32-unknown-unknown
	cargo check -p ringroad-web --target wasm32-unknown-unknown --quiet
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	tools/lint/run.sh
	$(PYTHON) -m ruff format --check python tests examples benchmarks tools docs
	$(PYTHON) -m ruff check python tests examples benchmarks tools docs
	$(MAKE) --no-print-directory build
	$(PYTHON) -m mypy
	$(PYTHON) tools/notebooks.py --check
	$(PYTHON) -m mypy.stubtest ringroad._native --allowlist tests/package/stubtest.txt --mypy-config-file tests/package/stubtest.ini
	$(PYTHON) -m pip install --quiet --group docs
	$(PYTHON) -m sphinx -b dummy -t check -W --keep-going -q docs docs/_build/check

check-all: check ## Run check, loom, the long tests (larger networks, many more calls), the oldest Rust, and a little fuzzing
	# Without a libFuzzer, which only programs that run need.
	cp Cargo.lock rust/fuzz/Cargo.lock
	CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a RUSTFLAGS="--cfg fuzzing" cargo clippy --manifest-path rust/fuzz/Cargo.toml --target-dir $(or $(CARGO_TARGET_DIR),target)/fuzz --quiet -- -D warnings
	cargo clippy -p ringroad-runtime --features bench --benches --quiet -- -D warnings
	tools/check_oldest_rust.sh
	tools/check_memory.sh loom
	cargo test -p ringroad-runtime --no-default-features --lib --quiet no_ucx
	# So many calls would take hours without all optimisations.
	RINGROAD_TEST_FULL=1 CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test --target-dir $(or $(CARGO_TARGET_DIR),target)/full -p ringroad-core -p ringroad-lab -p ringroad-runtime --quiet
	RINGROAD_TEST_FULL=1 $(PYTHON) -m pytest -q --timeout 3600
	tools/fuzz.sh 20000

check-memory: ## Search for races and undefined behaviour in shared memory with loom, Miri and two sanitizers (an hour)
	tools/check_memory.sh

check-faults: build ## Kill, stop, cut off and starve ranks at random moments, and check the other ranks (an hour; MINUTES=3)
	$(PYTHON) tools/check_faults.py --minutes $(MINUTES) $(if $(RECORD),--json $(RECORD))

fuzz: ## Feed everything that is read with mutated files: 10 million inputs (hours; INPUTS=20000 for each of 10 targets)
	tools/fuzz.sh $(INPUTS)

soak: build ## Make mixed calls for a long time, verify every result, and check that nothing grows (30 minutes; MINUTES=3)
	$(PYTHON) tools/soak.py --minutes $(MINUTES) $(if $(RECORD),--json $(RECORD))

bench: $(if $(filter kernels,$(SET)),,build) ## Compare with gloo; SET=peers|separate|network|carriers|thin|discover|choice|model|kernels|solvers|torch|select measures more (tools/bench.sh)
	tools/bench.sh $(or $(SET),gloo) $(RECORD)

notebooks: build ## Run the notebooks and store their outputs in them (3 minutes)
	$(PYTHON) tools/notebooks.py

playground: ## Compile the core for the page docs/playground (serve that folder to see it)
	tools/playground.sh

docs: build playground ## Build the documentation into docs/_build/html, with the APIs of Python and Rust, and the playground
	$(PYTHON) -m pip install --quiet --group docs
	$(PYTHON) -m sphinx -M html docs docs/_build -W --keep-going -q
	cargo doc --workspace --no-deps --quiet --target-dir docs/_build/rust
	rm -rf docs/_build/html/rust
	cp -r docs/_build/rust/doc docs/_build/html/rust
	rm -rf docs/_build/html/playground
	cp -r docs/playground docs/_build/html/playground
	$(PYTHON) tools/check_links.py docs/_build/html

wheel: $(VENV)/.built ## Build a release into dist: wheels for x86_64 and aarch64, checked by auditwheel, and the source package
	$(PYTHON) -m pip install --quiet --group release
	tools/wheel.sh $(VENV)

check-wheel: ## Install what dist holds into clean environments, and run the documentation's examples there (30 minutes)
	tools/check_wheel.sh $(ENVIRONMENTS)

fmt: $(VENV)/.installed ## Format all code
	cargo fmt --all
	cargo fmt --manifest-path rust/fuzz/Cargo.toml
	$(PYTHON) -m ruff format python tests examples benchmarks tools docs
	$(PYTHON) -m ruff check --fix python tests examples benchmarks tools docs

clean: ## Remove all build results, but keep .venv
	cargo clean
	rm -rf dist docs/_build docs/generated docs/playground/core python/ringroad/_native*.so $(VENV)/.built*
