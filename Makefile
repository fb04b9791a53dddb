# What this repository can do; `make` lists the first ten targets, `make help-all` all of them. Every target sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TYPE ?= service
FRAMEWORK ?= plain
PYTHON := .venv/bin/python
READY := .venv/.ready
STARTED := $(shell date +%s)
# VERSION=HEAD is this clone.
TEMPLATE ?= $(if $(filter HEAD,$(value VERSION)),,$(shell sed -nE 's/^updates: *"?([^ "]+).*/\1/p' company.yml))

# uv needs a cache that it can write.
ifndef UV_CACHE_DIR
ifeq ($(shell folder=$${XDG_CACHE_HOME:-$$HOME/.cache}/uv; mkdir -p "$$folder" 2>/dev/null && test -w "$$folder" && echo yes),)
export UV_CACHE_DIR := $(CURDIR)/build/uv-cache
endif
endif
# Package index and certificates for pip and uv: pip's variables, else pip's files, else company.yml.
pip_conf = $(lastword $(shell sed -nE 's/^ *$(1) *= *//p' /etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf $(PIP_CONFIG_FILE) 2>/dev/null))
INDEX := $(or $(value PIP_INDEX_URL),$(call pip_conf,index-url),$(shell sed -nE 's/^package_index: *"?([^ "]+).*/\1/p' company.yml))
CERT := $(or $(value PIP_CERT),$(call pip_conf,cert))
ifdef INDEX
export PIP_INDEX_URL := $(INDEX)
export UV_DEFAULT_INDEX := $(or $(value UV_DEFAULT_INDEX),$(INDEX))
endif
ifdef CERT
export SSL_CERT_FILE := $(or $(value SSL_CERT_FILE),$(CERT))
endif
export ANSWERS DATA
export PYTHONUTF8 := 1

FIRST := new demo adopt test lint docs images fleet-status fleet-push help-all
.PHONY: help help-all
help: ## list the first ten targets
	@for name in $(FIRST); do grep -hE "^$$name:.*## " $(MAKEFILE_LIST); done | sed -E 's/:.*## /\t/; s/ \(.*//; s/: make .*//' | expand -t 20
help-all: ## list all targets and what they take
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): requirements-dev.lock templates/shared/scripts/tools/uv.lock
	@python=$$(for name in $${PYTHON3:-python3.13 python3.12 python3.11 python3}; do \
	    $$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$name && break; done); \
	test -n "$$python" || { echo 'make: no Python 3.11, 3.12 or 3.13 here: install one, or say where with PYTHON3=/path/to/python' >&2; exit 1; }; \
	echo "make: setting up .venv with $$($$python --version): about a minute, only once" && { test ! -L .venv || rm .venv; } && $$python -m venv --clear .venv && \
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes -r templates/shared/scripts/tools/uv.lock && \
	echo "make: installing $$(grep -c == requirements-dev.lock) packages" && \
	.venv/bin/uv pip sync --quiet --compile-bytecode --python $(PYTHON) --require-hashes requirements-dev.lock
	@touch $@

.PHONY: demo
demo: $(READY) ## render a child into build/demo, test it, run it (TYPE=batch FRAMEWORK=torch; both as in the questions)
	@$(PYTHON) tools/demo.py --started $(STARTED) --type $(TYPE) --framework $(FRAMEWORK) $(if $(FRAMEWORK_BUILD),--framework-build $(FRAMEWORK_BUILD))

.PHONY: new
new: $(READY) ## start a repository: make new TO=../my-project (ANSWERS="question=answer ..." answers without asking, TEMPLATE=address: where updates come from; VERSION=HEAD: unreleased commits)
	@$(PYTHON) tools/new.py "$(TO)" --answers="$$ANSWERS" $(if $(TEMPLATE),--template "$(TEMPLATE)") $(call given,VERSION,version)

.PHONY: adopt
adopt: export TEMPLATE := $(TEMPLATE)
adopt: $(READY) ## let an old repository join: make adopt REPO=../old (TO=branch ANSWERS="question=answer ..." DRY_RUN=1 JSON=1 VERSION=)
	@test -z "$$DATA" || echo 'make: DATA is now ANSWERS; the old name works until version 0.8' >&2
	@$(PYTHON) -W ignore hooks/adopt.py "$$REPO" $(call given,TO,to) --answers="$${ANSWERS:-$$DATA}" \
	    $(if $(DRY_RUN),--dry-run) $(if $(JSON),--json) $(if $(TEMPLATE),--template="$$TEMPLATE") $(call given,VERSION,version); \
	code=$$?; case $$code in 3) exit 0 ;; *) exit $$code ;; esac

# Three on two cores: the processes that quick tests start wait for each other a third of the time.
# A file stays on one worker: the steps of a journey run in order.
.PHONY: test
test: $(READY) ## the quick tests: each property once; they need git, make and Python
	@.ci/room test
	@$(PYTHON) -m pytest -n $(or $(JOBS),3) --dist loadfile -m 'not slow and not release and not images' $(ARGS)

.PHONY: test-slow
test-slow: $(READY) ## the other tests without Docker or a GPU: every row of every table, pipelines, programs from Debian
	@.ci/room test-slow
	@$(PYTHON) -m tests.needs test-slow
	@$(PYTHON) -m pytest -n $(or $(JOBS),2) --dist loadfile -m 'slow and not release and not images' $(ARGS)

.PHONY: test-release
test-release: $(READY) ## what only a release needs: torch and TensorFlow, every version and many turns, in gigabytes and hours
	@.ci/room test-release
	@$(PYTHON) -m pytest -n $(or $(JOBS),2) --dist loadfile -m 'release and not images' $(ARGS)

.PHONY: lint
lint: $(READY) ## style, types and imports of this repository
	@mkdir -p build
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/mypy --package docs.figures --package benchmarks
	@PYTHONPATH=base-images:runtime/src:hooks .venv/bin/lint-imports --no-cache >build/imports.txt || { cat build/imports.txt; exit 1; }
	@.venv/bin/shellcheck hooks/release .ci/run .ci/room base-images/with-login base-images/recipe/install/*.sh base-images/recipe/finish/base-cc tests/ci/standins/make.sh
	@.venv/bin/actionlint -shellcheck .venv/bin/shellcheck .github/workflows/*.yml
	@.venv/bin/hadolint --ignore DL3006 --ignore DL3022 base-images/Dockerfile # the system is a variable; `plan` is a context

.PHONY: format
format: $(READY) ## fix the style
	@.venv/bin/ruff check --fix . ; .venv/bin/ruff format .

.PHONY: wheel
wheel: $(READY) ## build the runtime that children carry, and put it into their templates
	@$(PYTHON) tools/build_wheel.py

.PHONY: locks
locks: $(READY) ## resolve the locks that new children start with (IMAGES="torch-cu13 ..." for some of them)
	@$(PYTHON) -W ignore::UserWarning tools/lock_templates.py $(IMAGES)

.PHONY: dev-lock
dev-lock: $(READY) ## resolve requirements-dev.lock from requirements-dev.in
	@.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-annotate --custom-compile-command 'make dev-lock' requirements-dev.in --output-file requirements-dev.lock

.PHONY: build-lock
build-lock: $(READY) ## resolve the build tools that libraries package with
	@printf '%s\n' 'hatchling>=1.27' hatch-vcs | .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make build-lock' - \
	    --output-file templates/library/scripts/tools/build.lock

.PHONY: audit
audit: $(READY) ## ask the Python advisory database about every package of every lock
	@$(PYTHON) tools/audit.py

.PHONY: clean
clean: ## remove what was made here
	rm -rf build .venv

-include base-images/images.mk hooks/updates.mk benchmarks/service/service.mk docs/figures/docs.mk
