# Everything here happens in .venv, made on first use; nothing outside this directory is changed.
#
#   PYTHON  the interpreter .venv is made with (3.11 or newer)
#   TORCH   what to give pip for torch. It is installed first, and held, so that nothing else chooses a build:
#           make TORCH='torch==2.13.0 --index-url …' takes a CPU or CUDA build from where you say.

PYTHON ?= python3
TORCH ?= torch==2.13.0

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
FEDPRIV := $(BIN)/fedpriv
BENCH := .venv-bench/bin/python
TORCH_AND_ITS_LIBRARIES := $(PIP) list --format=freeze | grep -iE '^(torch|triton|nvidia-|cuda-)'

.DEFAULT_GOAL := all
.PHONY: all install test check run flwr-run bench soak hosts clean help

all: install help

install: .venv/installed ## install fedpriv, its dependencies and the development tools in .venv

# Makes the environment named by the target's directory.
define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'fedpriv needs Python 3.11 or newer: make PYTHON=python3.11' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo '$(PYTHON) cannot make environments: on Debian and Ubuntu, apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv $(@D)
endef

.venv/installed: pyproject.toml
	$(environment)
	echo '$(TORCH)' | xargs $(PIP) install
	@$(TORCH_AND_ITS_LIBRARIES) > .venv/torch.txt
	$(PIP) install --constraint .venv/torch.txt --editable '.[dev]'
	@$(TORCH_AND_ITS_LIBRARIES) | diff .venv/torch.txt - || \
	  { echo 'a dependency changed torch or brought GPU packages of its own (see above)' >&2; exit 1; }
	@touch $@

test: install ## run every test, in one process a core
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8

check: install ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict

RUN ?= runs/$(shell date +%Y%m%d-%H%M%S)
POISONED = $(FEDPRIV) run digits --driver direct --quiet --set attack.kind=OutputPoisoning --set clients.byzantine=3

run: install ## train the embedded study; three poisoners against three alphabets; a page of pictures
	$(FEDPRIV) run digits --out $(RUN)/digits
	$(POISONED) --out $(RUN)/peak-0.2
	$(POISONED) --out $(RUN)/one-bit --set privacy.mechanism.peak=0.15 --set privacy.mechanism.trials=1
	$(POISONED) --out $(RUN)/peak-is-clip --set privacy.mechanism.peak=1.0 --set privacy.mechanism.trials=100
	$(FEDPRIV) report $(RUN)/digits $(RUN)/one-bit $(RUN)/peak-0.2 $(RUN)/peak-is-clip

flwr-run: install ## the same from Flower's own command, on a SuperLink that ends with it
	$(BIN)/python -m simulations.flower_command

soak: install ## kill runs at random, 200 times, ten of them deployed, and compare them with undisturbed ones (SHORT=1: 20)
	$(BIN)/python tests/soak.py $(if $(SHORT),--short)

hosts: install ## a deployment on hosts of its own (root, on Linux): delay, loss, nodes cut off, a server's host restarted
	$(BIN)/python -m pytest -m 'hosts or not hosts' tests/test_hosts.py -rs --durations=0

bench: .venv-bench/installed ## measure against other projects, in .venv-bench; writes docs/benchmarks.md
	$(BENCH) -m benchmarks.run

BENCH_PIP := $(BENCH) -m pip --disable-pip-version-check
BENCH_TORCH_AND_ITS_LIBRARIES := $(subst $(PIP),$(BENCH_PIP),$(TORCH_AND_ITS_LIBRARIES))

.venv-bench/installed: pyproject.toml benchmarks/requirements.txt benchmarks/requirements-no-deps.txt
	$(environment)
	echo '$(TORCH)' | xargs $(BENCH_PIP) install
	@$(BENCH_TORCH_AND_ITS_LIBRARIES) > .venv-bench/torch.txt
	$(BENCH_PIP) install --constraint .venv-bench/torch.txt --editable . --requirement benchmarks/requirements.txt
	@grep -v '^#' benchmarks/requirements-no-deps.txt | xargs -n 1 $(BENCH_PIP) install --no-deps || \
	  echo 'not every other project can be installed here (see above): their rows will be missing' >&2
	@$(BENCH_TORCH_AND_ITS_LIBRARIES) | diff .venv-bench/torch.txt - || \
	  { echo 'a dependency changed torch or brought GPU packages of its own (see above)' >&2; exit 1; }
	@touch $@

clean: ## remove both environments and every cache (never your runs)
	rm -rf .venv .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 18
