# make demo    set up, then profile an example and show where its time went
# make test    set up with PyTorch, then run the tests (as root all of them; otherwise what needs eBPF is skipped)
# make check   linters, types, formats, import rules
# make format  mend what make check says about formats
# make bench   measure, side by side with torch's own profiler
# make setup   what the others do first; quick when done
# make clean   remove what they made
#
# PYTHON=…     the Python to make .venv from; eBPF needs the distribution's, which has bcc
# SYSTEM=skip  leave the distribution's packages alone
# ARGS=…       for pytest: make test ARGS='tests/unit -k merge'

PYTHON ?= /usr/bin/python3
SYSTEM ?= install
TORCH := torch==2.13.0
CUDA_PACKAGES := nvidia-cuda-cupti-cu11==11.8.87 nvidia-cuda-cupti-cu12==12.6.80 nvidia-cuda-cupti==13.0.85 \
	nvidia-nvtx-cu12==12.6.77
PACKAGES := python3-bpfcc python3-venv python3-dev gcc g++ make systemtap-sdt-dev linux-libc-dev bpftrace

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq
BUILD_INPUTS := pyproject.toml probes/pillion.h $(shell find cffi_build -name '*.py' -o -name '*.[chS]' -not -name '_*.c')
C_FILES := $(shell find cffi_build probes tests -name '*.[ch]' -not -path '*/kernel_headers/*' -not -name '_*.c')

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.PHONY: setup system demo test check format bench clean
.DEFAULT_GOAL := setup

setup: $(VENV)/.installed

# The stamps in .venv say what was done; a stamp older than what it was made from is made anew.
system:
	@[[ "$(SYSTEM)" == install ]] || exit 0
	missing=()
	for package in $(PACKAGES); do
		status=$$(dpkg-query --show --showformat='$${db:Status-Status}' "$$package" 2>/dev/null || true)
		[[ "$$status" == installed ]] || missing+=("$$package")
	done
	(( $${#missing[@]} )) || exit 0
	root=()
	if ! command -v apt-get >/dev/null; then
		echo "setup: apt-get is not here. Install what Debian calls: $${missing[*]}; then: make setup SYSTEM=skip" >&2
		exit 1
	elif (( $$(id -u) != 0 )); then
		if ! command -v sudo >/dev/null; then
			echo "setup: as root run: apt-get update && apt-get install $${missing[*]}; then make setup again" >&2
			exit 1
		fi
		root=(sudo)
	fi
	echo "setup: installing $${missing[*]}"
	apt_get() { "$${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$$@"; }
	apt_get update
	apt_get install -y --no-install-recommends "$${missing[@]}" </dev/null >/dev/null

$(VENV)/.created: | system
	@echo "setup: $(VENV) from $(PYTHON)"
	$(PYTHON) -m venv --system-site-packages $(VENV)
	$(PIP) --upgrade 'pip>=25.1'
	touch $@

$(VENV)/.installed: $(VENV)/.created $(BUILD_INPUTS) | system
	@echo "setup: building and installing"
	$(PIP) --editable '.[test]'
	touch $@

# Without a build of PyTorch for the CPU among pip's sources this is the one for CUDA, several GB.
$(VENV)/.torch: $(VENV)/.installed
	@echo "setup: $(TORCH)"
	$(PIP) '$(TORCH)'
	touch $@

# What the tests read exports with. HolisticTraceAnalysis asks for JupyterLab, which reading a trace does not need. The
# others come from npm; without it the tests that need them are skipped.
$(VENV)/.readers: $(VENV)/.created
	@echo "setup: readers of exports"
	$(PIP) --no-deps HolisticTraceAnalysis==0.5.0
	if command -v npm >/dev/null; then
		npm install --silent --no-audit --no-fund --prefix $(VENV)/readers speedscope@1.25.0 pprof-format@2.3.2
	fi
	touch $@

# NVIDIA's headers and libcupti, which the stand-in for them is compared with; unpacked and not installed, so that no test
# finds them by itself.
$(VENV)/.cuda: $(VENV)/.created
	@echo "setup: NVIDIA's public packages"
	rm -rf $(VENV)/cuda $(VENV)/wheels
	for package in $(CUDA_PACKAGES); do
		$(BIN)/python -m pip download -qq --no-deps --dest $(VENV)/wheels "$$package"
	done
	for wheel in $(VENV)/wheels/*.whl; do
		$(BIN)/python -m zipfile -e "$$wheel" "$(VENV)/cuda/$$(basename "$$wheel" .whl)"
	done
	rm -rf $(VENV)/wheels
	touch $@

# mypy follows folders, not the import hook of an editable install: links give each folder its import name.
$(VENV)/.check: $(VENV)/.installed
	@echo "setup: the tools of make check"
	$(PIP) --group check
	mkdir -p $(VENV)/src
	ln -sfn ../../probes $(VENV)/src/pillion_probes
	ln -sfn ../../agent $(VENV)/src/pillion_agent
	ln -sfn ../../pyapi $(VENV)/src/pillion
	touch $@

demo: setup
	@if $(BIN)/python -c 'import sys, importlib.util as u; sys.exit(u.find_spec("torch") is None)'; then
		example=examples/train_cifar.py
	else
		example=examples/pipeline.py
	fi
	if (( $$(id -u) != 0 )) && ! $(BIN)/pillion agent status &>/dev/null && command -v sudo >/dev/null; then
		sudo $(BIN)/pillion agent start >&2
		trap 'sudo $(BIN)/pillion agent stop >&2' EXIT
	fi
	echo "demo: pillion run -- python $$example"
	$(BIN)/pillion run -- $(BIN)/python "$$example"

test: setup $(VENV)/.torch $(VENV)/.readers $(VENV)/.cuda
	@CUDA_PACKAGES="$$(printf '%s:' $(CURDIR)/$(VENV)/cuda/*)" $(BIN)/python -m pytest $(ARGS)

# All of them run, so that one look shows everything.
check: setup $(VENV)/.check
	@status=0
	run() { echo "check: $${*:1:2}"; "$(BIN)/$$@" || status=1; }
	run ruff check --quiet --output-format concise .
	run ruff format --quiet --check .
	run mypy
	run clang-format --dry-run -Werror $(C_FILES)
	run lint-imports
	exit $$status

format: setup $(VENV)/.check
	$(BIN)/clang-format -i $(C_FILES)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup $(VENV)/.torch
	@for bench in tests/bench/*.py; do
		[[ "$$(basename "$$bench")" == _* ]] && continue
		echo "== $$bench"
		$(BIN)/python "$$bench"
	done

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find agent cffi_build probes pyapi tests examples \( -name __pycache__ -o -name '*.so' -o -name '*.o' \) -prune -exec rm -rf {} +
