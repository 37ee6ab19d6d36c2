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
.PHONY: all install constraints test test-fast test-slow test-all lingering check docs tables run flwr-run bench soak hosts clean help

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

# Everything but torch is in constraints.txt: one version of each, and the hashes of all its files. Nothing is looked for
# beyond it, and a file that is another one is refused. fedpriv itself is installed where it stands.
.venv/installed: pyproject.toml constraints.txt
	$(environment)
	echo '$(TORCH)' | xargs $(PIP) install
	@$(TORCH_AND_ITS_LIBRARIES) > .venv/torch.txt
	$(PIP) install --require-hashes --no-deps --requirement constraints.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@$(TORCH_AND_ITS_LIBRARIES) | diff .venv/torch.txt - || \
	  { echo 'a dependency changed torch or brought GPU packages of its own (see above)' >&2; exit 1; }
	$(PIP) check
	$(BIN)/python -m compileall -q fedpriv clients server simulations
	@touch $@

# What is there already makes the list of what is to be there: a new dependency must not be installed first.
.venv/bin/uv:
	$(MAKE) install

# Versions stay as they are where pyproject.toml still allows them; UPGRADE=1 takes the newest.
constraints: | .venv/bin/uv ## renew constraints.txt after a change of the dependencies in pyproject.toml (UPGRADE=1: newest versions)
	sed 's/+.*//' .venv/torch.txt > .venv/torch-anywhere.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra docs --universal --generate-hashes --quiet --no-header \
	  --no-annotate $(if $(UPGRADE),--upgrade) --constraint .venv/torch-anywhere.txt --output-file constraints.txt
	awk '/^[a-z]/ { ours = !/^(torch|triton|nvidia-|cuda-)/ } ours' constraints.txt > .venv/constraints.txt
	cp .venv/constraints.txt constraints.txt

PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8

test: install ## the tests, in one process a core: all but the slow ones
	$(PYTEST) -m 'not slow and not hosts'

test-fast: install ## less than a minute, while typing: neither Ray nor Flower nor a browser, and nothing that lingers
	$(PYTEST) -m 'not slow and not flower and not browser and not hosts' --fast

test-slow: install ## what `make test` leaves out
	$(PYTEST) -m 'slow and not hosts'

test-all: test test-slow ## every test

check: install ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict

docs: install tables ## the pages and the reference as a site that opens from disk: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo 'open site/index.html'

tables: install ## write the tables of docs/ that come from the code
	$(BIN)/python -m tools.tables

lingering: install ## measure the tests one after the other, and list those that `make test-fast` leaves out for their time
	$(BIN)/python -m pytest -m 'not slow and not flower and not browser and not hosts' -p tools.lingering

RUN ?= runs/$(shell date +%Y%m%d-%H%M%S)
POISONED = $(FEDPRIV) run digits --driver direct --quiet --set attack.kind=OutputPoisoning --set clients.byzantine=3

run: install ## train the embedded study; three poisoners against three alphabets; a page of pictures
	$(FEDPRIV) run digits --out $(RUN)/digits
	$(POISONED) --out $(RUN)/peak-0.2
	$(POISONED) --out $(RUN)/one-bit --set privacy.mechanism.peak=0.15 --set privacy.mechanism.trials=1
	$(POISONED) --out $(RUN)/peak-is-clip --set privacy.mechanism.peak=1.0 --set privacy.mechanism.trials=100
	$(FEDPRIV) report $(RUN)/digits $(RUN)/one-bit $(RUN)/peak-0.2 $(RUN)/peak-is-clip

flwr-run: install ## the same from Flower's own command, on a SuperLink that ends with it
	$(BIN)/python -m simulations.flower.command

soak: install ## kill runs at random, 200 times, ten of them deployed, and compare them with undisturbed ones (SHORT=1: 20)
	$(BIN)/python tests/soak.py $(if $(SHORT),--short)

hosts: install ## a deployment on hosts of its own (root, on Linux): delay, loss, nodes cut off, a server's host restarted
	$(BIN)/python -m pytest -m 'hosts or not hosts' tests/simulations/flower/test_hosts.py -rs --durations=0

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
