# Targets around updates and releases; included by the Makefile.

.PHONY: oldest-copier-lock
oldest-copier-lock: $(READY) ## resolve the lock of the oldest supported Copier, which the tests run too
	@sed -n 's/^_min_copier_version: "\(.*\)"/copier==\1/p' copier.yml | \
	    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-annotate --custom-compile-command 'make oldest-copier-lock' - \
	    --output-file tests/updates/oldest-copier.lock

.PHONY: release-check
release-check: $(READY) ## show what the next release changes in children, and refuse what would hurt them
	@$(PYTHON) -W ignore hooks/release_check.py $(ARGS)
