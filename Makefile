# Everything a developer does. Each target makes what it needs in .venv from any Python >= 3.11 that has pip, or with
# PYTHON=python3.13 in .venv-3.13 from that one.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PYENV_ROOT ?= $(patsubst %/bin/pyenv,%,$(shell command -v pyenv))
export PYENV_ROOT
# pyenv's shims run what is installed only if they are asked for it.
PYENV := PYENV_VERSION="$$(pyenv versions --bare 2>/dev/null | paste -s -d :)"
# A Python that is asked for has an environment of its own; else the one that is there would be used, whatever it is of.
ifeq ($(origin PYTHON),command line)
override PYTHON := $(shell which='import sys; print(sys.executable)'; $(PYTHON) -c "$$which" 2>/dev/null \
	|| $(PYENV) $(PYTHON) -c "$$which" 2>/dev/null || echo $(PYTHON))
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("{}.{}".format(*sys.version_info))')
else
VENV := .venv
endif
ENGINES := $(VENV)-engines
BIN := $(VENV)/bin
# Few modules of what is installed are ever imported: those alone are compiled, by the first process that imports them.
INSTALL := install --no-compile --quiet --disable-pip-version-check
PIP := $(BIN)/python -m pip $(INSTALL)
# What fails for a moment is tried again, and another program that installs packages is waited for.
APT := apt-get -y -q -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300
ARGS ?=
SEEDS ?= 100000
EXAMPLES ?= 20000
STEPS ?= 200
KILLS ?= 5000
ROUNDS ?= 5
# A version that says so is a build for the CPU: of others pip takes one with gigabytes for GPUs.
TORCH ?= 2.13.0+cpu
KERNEL ?= /
REV :=
SYSTEMS ?= slurm sge pbs lsf ssh k8s
# Systems whose tests run side by side, in parts of about the same length.
LAUNCH_PARTS := slurm sge+ssh pbs+lsf+k8s
# Those that are supported, oldest first, and those of them on which `make test-pythons` runs the tests of units.
PYTHONS ?= python3.11 python3.12 python3.13
UNITS ?= $(PYTHONS)
PROGRAMS := redis-server openmpi-bin mpich
BROWSER := chromium fonts-dejavu-core
BATCH := slurm-wlm slurm-wlm-torque slurmdbd mariadb-server-core munge lammps openmpi-bin openssh-server openssh-client iproute2 zsh fish
# Programs of these packages: all are there, or all packages are installed.
BATCH_PROGRAMS := slurmctld slurmd slurmdbd mariadbd munged generate_pbs_nodefile lmp mpirun sshd ssh ip zsh fish
# Unpacked, never installed: their programs have the names of other batch systems', and would start as services.
GRID_ENGINE := gridengine-common gridengine-client gridengine-exec gridengine-master
GRID_ENGINE_NEEDS := libdb5.3 libhwloc15 libjemalloc2 libmunge2 libtirpc3 iproute2
# The standard library's own tests, which run on our pools where they are of the Python that runs.
TESTSUITE := libpython3.11-testsuite
# An image is built on a Debian with its own Python, that of PYTHON where a Debian has it.
IMAGE := buildah mmdebstrap debian-archive-keyring
IMAGE_PROGRAMS := buildah mmdebstrap
FAULTS := tests/integration/faults
# Two halves, which wait most of their time.
FAULTS_FIRST := $(wildcard $(FAULTS)/test_faults_[a-h]*.py)
FAULTS_REST := $(filter-out $(FAULTS_FIRST),$(wildcard $(FAULTS)/test_*.py))
# What goes with each half, so that all programs end at about the same time: two that wait now and then do not fill two cores.
WITH_FIRST := tests/integration/acceptance
WITH_REST := tests/chaos tests/testing
# What is run elsewhere: by `make check`, and by `make test-examples`, which installs all that examples take.
ELSEWHERE := tests/typing tests/examples
# Hypothesis draws from the constants of all modules that are loaded: by itself, a machine of states is every day the same.
ALONE := tests/machines/test_schedulers_machine.py
# What computes all the time; $(ALONE) is left out.
COMPUTING := tests/machines tests/simulation
WITH_COMPUTING := tests/integration/notebooks tests/integration/runners
# What follows it in the program that would end first.
LAST := tests/architecture tests/site tests/virtual
# What comes out alike on every Python: texts, and what decides without waiting, files, chance or the clock. `.ci/run` runs it
# on the oldest, and all else on the newest, too. AGAIN is the Python that has run it: there too, `test_replay.py` lives through
# some worlds, and they must be the same, event by event. Garbage (`test_parts.py`) is each Python's own. Programs of pages
# (`test_page_files.py`) do the same at the prompt, where each Python runs them, too.
ALIKE_WORLDS := $(filter-out %/test_parts.py %/test_replay.py,$(wildcard tests/simulation/test_*.py))
ALIKE_UNITS := tests/unit/fleet tests/unit/scheduler
ALIKE_PAGES := tests/integration/test_page_files.py
# Faults of machines, networks, disks and heads: what happens to processes from without happens to those of any Python alike.
OUTAGES := at_most_once blocks campaign_bytes cgroups client_links client_losses clients connect copies data disks door full_journal \
	gangs head_again held_memory history_again hostile kept_outcomes killed_head links load next_head replicas rooms sessions shortage \
	store storm too_large two_users units watched_workers
ALIKE_FAULTS := $(OUTAGES:%=$(FAULTS)/test_faults_%.py)
ALIKE := tests/architecture tests/site tests/machines $(ALIKE_WORLDS) $(ALIKE_UNITS) $(ALIKE_PAGES) $(ALIKE_FAULTS)
# Of what is drawn, for real processes (`tests/chaos`) and on virtual time, AGAIN leaves a part: 40 faults of 100, 60 worlds of 200.
FEWER := GRAINLIKE_TEST_KILLS=40 GRAINLIKE_TEST_WORLDS=60
# Programs that measure are no part of the wheel; those who measure have the oldest or the newest Python.
MEASURING := tests/unit/bench
REPLAY := tests/simulation/test_replay.py
AGAIN ?=

# Programs side by side, each its tests one at a time: they watch what they leave behind. `beside NAME WORDS` begins one, which
# writes to NAME.log, and `finish` waits for them and shows what they wrote.
SIDE_BY_SIDE = pids= logs= failed=0; trap 'kill $$pids 2>/dev/null' INT TERM; \
	beside() { logs="$$logs $(VENV)/$$1.log"; log=$(VENV)/$$1.log; shift; "$$@" >$$log 2>&1 & pids="$$pids $$!"; }; \
	finish() { for pid in $$pids; do wait $$pid || failed=1; done; for log in $$logs; do echo "$$log:"; cat $$log; done; \
		return $$failed; }

begin_launch = $(if $(1),beside launch-$(firstword $(1)) env GRAINLIKE_TEST_LAUNCH="$(1)" $(BIN)/python -m pytest tests/launch;)

# Where a shell forbids to keep compiled code, as in many containers, each of the tests' processes would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test tests pictures pythons test-engines test-pythons test-examples test-launch test-dashboard test-image test-conda test-gpu test-long test-kernel bugs check house docs lint format bench clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## run the demonstration (ARGS="--help" for its options)
	@echo "Starting the demonstration (about half a minute) ..."
	$(BIN)/grainlike demo $(ARGS)

test: check  ## check, then run the tests (ARGS="-k net" for some of them)
	@$(MAKE) --no-print-directory tests

tests: $(VENV)/.dev  ## run the tests of `make test`, without the checks
ifeq ($(strip $(ARGS)),)
	@echo "Running the tests: five programs side by side, some eleven minutes on two cores; one shows its progress here,"
	@echo "the others in $(VENV)/integration.log, faults.log, worlds.log and others.log until they have ended."
	@$(if $(AGAIN),export GRAINLIKE_TEST_ALIKE="$(AGAIN)" $(FEWER);) $(SIDE_BY_SIDE); \
	beside integration $(BIN)/python -m pytest tests/integration $(addprefix --ignore ,$(FAULTS) $(WITH_FIRST) $(WITH_COMPUTING) $(if $(AGAIN),$(ALIKE_PAGES))); \
	beside worlds $(BIN)/python -m pytest $(if $(AGAIN),,$(COMPUTING)) $(WITH_COMPUTING) --ignore $(ALONE); \
	beside others $(BIN)/python -m pytest $(addprefix --ignore ,tests/integration $(WITH_REST) $(LAST) $(ELSEWHERE) $(if $(AGAIN),$(ALIKE),$(COMPUTING))); \
	beside faults $(BIN)/python -m pytest $(filter-out $(if $(AGAIN),$(ALIKE)),$(FAULTS_REST) $(WITH_REST)); \
	$(BIN)/python -m pytest $(filter-out $(if $(AGAIN),$(ALIKE)),$(FAULTS_FIRST) $(WITH_FIRST)) || failed=1; \
	$(if $(AGAIN),,$(BIN)/python -m pytest $(ALONE) || failed=1;) \
	$(BIN)/python -m pytest $(filter-out $(if $(AGAIN),$(ALIKE)),$(LAST)) || failed=1; \
	finish
else
	$(BIN)/python -m pytest $(ARGS)
endif

test-engines: $(ENGINES)/.engines  ## run the tests of Dask, Ray, Celery (with a Redis server of their own) and MPI, and others' suites on our parts
	GRAINLIKE_TEST_ENGINES="plain dask dask-scheduler ray celery" $(ENGINES)/bin/python -m pytest tests/engines $(ARGS)

test-examples: $(VENV)/.examples  ## run the examples; that with PyTorch where a build of TORCH for the CPU alone could be had
	GRAINLIKE_TEST_EXAMPLES="all $$(cat $<)" $(BIN)/python -m pytest tests/examples $(ARGS)

test-pythons: $(VENV)/.dev  ## install the wheel under each of PYTHONS that is there, in .venv-pythons, run a job with it, and then, on those in UNITS, the tests of units (ARGS="-k wire")
	@mkdir -p .venv-pythons/empty && rm -f .venv-pythons/*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir .venv-pythons .
	@tried=; for python in $(PYTHONS); do own=.venv-pythons/$$python; \
		$(PYENV) $$python -c pass 2>/dev/null || { echo "$$python is not here"; continue; }; \
		echo "Installing the wheel into $$own ..."; \
		test -x $$own/bin/python || $(PYENV) $$python -m venv --without-pip $$own || exit; \
		$(BIN)/python -m pip --python $$own/bin/python $(INSTALL) --force-reinstall --no-deps \
			.venv-pythons/*.whl || exit; \
		case " $(UNITS) " in *" $$python "*) tests=yes;; *) tests=;; esac; \
		$(BIN)/python -m pip --python $$own/bin/python $(INSTALL) .venv-pythons/*.whl $${tests:+--group tests} || exit; \
		( cd .venv-pythons/empty && ../$$python/bin/python ../../.ci/smoke.py ) || exit; \
		if test "$$tests"; then $(BIN)/python -m pip --python $$own/bin/python $(INSTALL) --no-deps ./benchmarks || exit; \
			GRAINLIKE_TEST_ALIKE="$(AGAIN)" $$own/bin/python -m pytest tests/unit \
			$(if $(AGAIN),$(REPLAY) $(addprefix --ignore ,$(ALIKE_UNITS) $(MEASURING))) $(ARGS) || exit; fi; \
		tried=yes; done; test "$$tried"

pythons:  ## print the Pythons that are supported, oldest first
	@echo $(PYTHONS)

test-launch: $(VENV)/.dev $(VENV)/gridengine/.unpacked  ## submit workers to a real Slurm, a real Grid Engine and by a real sshd on this machine, from Debian's packages, and to fakes, and complete command lines in zsh and fish; it takes root
	@( for name in $(BATCH_PROGRAMS); do PATH="$$PATH:/usr/sbin" command -v $$name || exit; done ) >/dev/null \
		|| { echo "Installing $(BATCH) ..."; test "$$(id -u)" = 0 \
			&& { $(APT) install --no-remove --no-install-recommends $(BATCH) || { $(APT) update \
				&& $(APT) install --no-remove --no-install-recommends $(BATCH); }; } >/dev/null; } \
		|| { echo "the tests of launching need: apt-get install $(BATCH)" >&2; exit 2; }
	GRAINLIKE_TEST_SHELLS="zsh fish" $(BIN)/python -m pytest tests/integration/test_completion.py
ifeq ($(strip $(ARGS)),)
	@echo "Running the tests of $(SYSTEMS), several at once: most of their time they wait for a batch system."
	@$(SIDE_BY_SIDE); $(foreach part,$(LAUNCH_PARTS),$(call begin_launch,$(filter $(subst +, ,$(part)),$(SYSTEMS)))) finish
else
	GRAINLIKE_TEST_LAUNCH="$(SYSTEMS)" $(BIN)/python -m pytest tests/launch $(ARGS)
endif

test-dashboard: $(VENV)/.browser  ## look at the dashboard's pages, and at the site that `make docs` built, in a real Chromium, from Debian's package; to install that takes root
	@command -v chromium >/dev/null || { echo "Installing $(BROWSER) ..."; test "$$(id -u)" = 0 \
			&& { $(APT) install --no-install-recommends $(BROWSER) \
				|| { $(APT) update && $(APT) install --no-install-recommends $(BROWSER); }; } >/dev/null; } \
		|| { echo "the tests of the dashboard need: apt-get install $(BROWSER)" >&2; exit 2; }
	GRAINLIKE_TEST_DASHBOARD=1 $(BIN)/python -m pytest tests/browser $(ARGS)

pictures: $(VENV)/.browser  ## make the pictures of the site again, by the tests that compare them with what there is; Chromium as above
	GRAINLIKE_KEEP_PICTURES=1 $(BIN)/python -m pytest tests/site/test_pictures.py
	@GRAINLIKE_KEEP_PICTURES=1 $(MAKE) --no-print-directory test-dashboard ARGS="-k picture"

test-image: $(VENV)/image/base.tar $(VENV)/.dev  ## build the image of a worker with Buildah on a Debian, and run jobs in it; it takes root
	GRAINLIKE_TEST_IMAGE=$(abspath $<) $(BIN)/python -m pytest tests/image $(ARGS)

test-conda: $(VENV)/.conda  ## build the package for conda from its recipe, on a channel that is made here of this Python and of wheels, install it and run jobs with it
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo "the recipe builds on Python 3.11: make test-conda PYTHON=python3.11" >&2; exit 2; }
	@echo "Making a channel of this Python and of wheels, and building on it (half a minute) ..."
	GRAINLIKE_TEST_CONDA=1 $(BIN)/python -m pytest tests/conda $(ARGS)

$(VENV)/image/base.tar: | $(VENV)/.pip
	@for name in $(IMAGE_PROGRAMS); do command -v $$name || exit; done >/dev/null \
		|| { echo "Installing $(IMAGE) ..."; test "$$(id -u)" = 0 \
			&& { $(APT) install --no-install-recommends $(IMAGE) \
				|| { $(APT) update && $(APT) install --no-install-recommends $(IMAGE); }; } >/dev/null; } \
		|| { echo "the tests of the image need root, and: apt-get install $(IMAGE)" >&2; exit 2; }
	@suite=$$($(BIN)/python -c 'import sys; print({11: "bookworm", 13: "trixie"}.get(sys.version_info.minor, ""))'); \
		test "$$suite" || { echo "no Debian has the Python of $(VENV)" >&2; exit 2; }; \
		echo "Making a base of Debian $$suite in $@ ..."; \
		mkdir -p $(@D); mmdebstrap --quiet --format=tar --variant=essential --include=passwd,python3-venv --aptopt='Acquire::Retries "5"' \
			$$suite $@.new && mv $@.new $@

$(VENV)/.gpu: $(VENV)/.dev
	@command -v nvidia-smi >/dev/null || { echo "the tests of devices need an NVIDIA device, and nvidia-smi" >&2; exit 2; }
	@echo "Installing PyTorch with CUDA into $(VENV) (once; some gigabytes) ..."
	@$(PIP) torch
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	@echo "Installing what drives a browser into $(VENV) (once) ..."
	@$(PIP) --group browser
	@touch $@

$(VENV)/.examples: $(VENV)/.dev
	@echo "Installing what the examples take into $(VENV) (once) ..."
	@$(PIP) --group examples
	@$(PIP) --only-binary=:all: 'torch==$(TORCH)' 2>$@.log && echo torch >$@ \
		|| { echo "There is no torch $(TORCH) for this Python here; its example is left out."; : >$@; }

$(VENV)/.conda: $(VENV)/.dev
	@echo "Installing what solves and installs packages of conda into $(VENV) (once) ..."
	@$(PIP) --group conda
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@echo "Installing what builds the site into $(VENV) (once) ..."
	@$(PIP) --group docs
	@touch $@

$(VENV)/gridengine/.unpacked: | $(VENV)/.pip
	@echo "Unpacking $(GRID_ENGINE) ..."
	@test "$$(id -u)" = 0 || { echo "the tests of launching take root" >&2; exit 2; }
	@rm -rf $(@D) && mkdir -p $(@D)/packages
	@cd $(@D)/packages && get() { $(APT) install --no-install-recommends $(GRID_ENGINE_NEEDS) \
		&& $(APT) download -o APT::Sandbox::User=root $(GRID_ENGINE); } && { get || { $(APT) update && get; }; } >/dev/null
	@for package in $(@D)/packages/*.deb; do dpkg-deb -x "$$package" $(@D) || exit; done
	@touch $@

test-gpu: $(VENV)/.gpu  ## run jobs on an NVIDIA device of this machine, by PyTorch, and by CuPy and JAX where they are installed; nobody else may use it meanwhile
	GRAINLIKE_TEST_GPU=1 $(BIN)/python -m pytest tests/gpu $(ARGS)

test-long: bugs  ## what takes hours: SEEDS=100000 worlds and broken journals, EXAMPLES=20000 of STEPS=200 of both minds, KILLS=5000 of processes, ROUNDS=5 of signals to blocks on a real Slurm (as root), 10 000 values, every seeded bug
	GRAINLIKE_TEST_SEEDS=$(SEEDS) GRAINLIKE_TEST_REPLAYS=10 $(BIN)/python -m pytest tests/simulation
	GRAINLIKE_TEST_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/unit/journal
	GRAINLIKE_TEST_WORLDS=$$(($(SEEDS) / 5)) $(BIN)/python -m pytest tests/virtual
	GRAINLIKE_TEST_KILLS=$(KILLS) GRAINLIKE_TEST_FUZZ=$(SEEDS) $(BIN)/python -m pytest -s tests/chaos
	GRAINLIKE_TEST_HOSTILE=$(SEEDS) $(BIN)/python -m pytest tests/integration/faults/test_faults_hostile.py
	GRAINLIKE_TEST_VALUES=10000 $(BIN)/python -m pytest tests/integration/faults/test_faults_values.py -k resident_memory
	GRAINLIKE_TEST_ROUNDS=$(ROUNDS) $(MAKE) test-launch ARGS="$(ARGS) -k 'signals_to_all or others_end'" SYSTEMS=slurm
	GRAINLIKE_TEST_EXAMPLES=$(EXAMPLES) GRAINLIKE_TEST_STEPS=$(STEPS) $(BIN)/python -m pytest tests/machines

test-kernel: $(VENV)/.dev  ## memory limits that a kernel keeps, in an emulated machine; KERNEL= is an unpacked kernel package
	$(BIN)/python tests/kernel/in_machine.py --kernel $(KERNEL) -- env GRAINLIKE_TEST_KERNEL=1 PYTHONPATH=.:worker \
		HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis \
		$(abspath $(BIN))/python -m pytest -p no:cacheprovider tests/kernel $(ARGS)

bugs: $(VENV)/.dev  ## plant bugs in copies of the schedulers, of recovery and of admission, and see each caught (ARGS="--list" says what they break)
	$(BIN)/python tests/machines/catch_bugs.py $(ARGS)

check: lint  ## style, types, and the walls between the rooms
	@echo "Checking types and imports (a minute) ..."
	@$(SIDE_BY_SIDE); \
	beside mypy $(BIN)/mypy; \
	beside lint-imports $(BIN)/lint-imports; \
	beside typing $(BIN)/python -m pytest -q tests/typing; \
	$(BIN)/pyright --warnings --pythonpath $(BIN)/python || failed=1; \
	finish

house: $(VENV)/.dev  ## print figures of the source tree, beside what they were and are to be (ARGS="--list circles" for what makes up a row)
	$(BIN)/python tests/architecture/house.py $(ARGS)

docs: $(VENV)/.docs  ## build the site into build/site/index.html, and refuse dead links, pages without a place and addresses elsewhere
	@$(BIN)/python docs/_site/stage.py build/site-source
	@NO_COLOR=1 $(BIN)/python -m zensical build --clean --strict >build/site.log 2>&1 || { cat build/site.log; exit 1; }
	@! grep -E "^(griffe|mkdocstrings):" build/site.log
	@$(BIN)/python docs/_site/check.py mkdocs.yml
	@echo "The site is in build/site/index.html."

lint: $(VENV)/.dev  ## style alone
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(VENV)/.dev  ## mend style where a machine can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.dev  ## run the benchmarks (ARGS=targets for every row of the table of targets, ARGS=compare REV=main for what changed since then)
	$(BIN)/python -m grainlike_bench $(ARGS) $(if $(REV),-- $(REV))

clean:  ## remove what these targets made
	rm -rf .venv .venv-* build dist .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A system Python without ensurepip cannot put pip into a new environment; its own pip can, from outside.
# Dependency groups need pip 25.1, newer than the one most Pythons bring.
$(VENV)/.pip:
	@echo "Making an environment in $(VENV) with $(PYTHON) ..."
	@test -n "$(PYTHON)" || { echo "grainlike needs Python 3.11 or newer; none was found (set PYTHON=...)" >&2; exit 2; }
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
		&& $(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check pip; }
	@echo "Updating pip in $(VENV) ..."
	@$(PIP) --upgrade 'pip>=25.1'
	@touch $@

# Celery is tried with a real broker, and MPI programs with two real launchers: none of them is a Python package.
$(ENGINES)/.engines: $(VENV)/.pip pyproject.toml
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || exit 0; \
		test -e /usr/lib/python3.11/test/test_concurrent_futures.py || { echo "Installing $(TESTSUITE) ..."; \
		test "$$(id -u)" = 0 && { $(APT) install $(TESTSUITE) \
			|| { $(APT) update && $(APT) install $(TESTSUITE); }; } >/dev/null; } \
		|| { echo "the standard library's tests need: apt-get install $(TESTSUITE)" >&2; exit 2; }
	@{ command -v redis-server && command -v mpirun.openmpi && command -v mpirun.mpich; } >/dev/null \
		|| { echo "Installing $(PROGRAMS) ..."; test "$$(id -u)" = 0 \
			&& { $(APT) install $(PROGRAMS) || { $(APT) update && $(APT) install $(PROGRAMS); }; } >/dev/null; } \
		|| { echo "the tests of other engines need: apt-get install $(PROGRAMS)" >&2; exit 2; }
	@echo "Installing Dask, Ray and Celery into $(ENGINES) (once; some minutes) ..."
	@$(BIN)/python -m venv --clear --without-pip $(ENGINES)
	@$(BIN)/python -m pip --python $(ENGINES)/bin/python $(INSTALL) \
		--editable '.[dask,ray,celery,demo]' --group engines
	@touch $@

$(VENV)/.demo: $(VENV)/.pip pyproject.toml
	@echo "Installing grainlike and what the demonstration needs into $(VENV) (once; a minute or two) ..."
	@$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.dev: $(VENV)/.pip pyproject.toml
	@echo "Installing grainlike and the tools of its developers into $(VENV) (once; a minute or two) ..."
	@$(PIP) --editable . --group dev
	@touch $@
