# Targets around updates and releases; included by the Makefile.

.PHONY: release-check
release-check: $(READY) ## compare the last release with the work tree, reject what would hurt children
	@.ci/room release-check
	@$(PYTHON) -W ignore hooks/release_check.py $(ARGS)

.PHONY: release
release: $(READY) ## release a version: make release VERSION=x.y.z (PUSH=1 pushes it)
	@PYTHON=$(PYTHON) hooks/release "$$VERSION"

.PHONY: tags
tags: $(READY) ## tag every release that has no tag in this clone
	@$(PYTHON) hooks/releases.py

.PHONY: demo-update
demo-update: $(READY) ## show an update: a merge, a file that its owner deleted, and a conflict with its solution (TYPE=service|batch|library)
	@$(PYTHON) hooks/demo_update.py --type $(TYPE)

# What a pipeline's parameter contains is never text of a recipe: the shell reads it from the environment.
# $(call given,NAME,option) is --option="$NAME" where NAME is set; $(call typed,...) only where it is typed behind make,
# since a variable of a build must not take a check away.
given = $(if $(value $(1)),--$(2)="$$$(1)")
typed = $(if $(findstring command line,$(origin $(1))),$(call given,$(1),$(2)))

FLEET := $(PYTHON) -W ignore hooks/fleet.py --file="$${FLEET_FILE:-fleet.yml}"

.PHONY: fleet-status
fleet-status: $(READY) ## each child's version and whether it is behind, its open pull request and its CI; also as build/fleet.html (FLEET_FILE=fleet.yml)
	@$(FLEET) status --html build/fleet.html

.PHONY: fleet-push
fleet-push: $(READY) ## bring a release to the children (VERSION=vX.Y.Z, default: the newest; CANARY=1: only to the canaries; ONLY=child: only to this one; DRY_RUN=1: push nothing)
	@$(FLEET) push --html build/fleet.html $(call given,VERSION,to) $(if $(value CANARY),--canary) $(if $(DRY_RUN),--dry-run) $(call given,ONLY,only); \
	code=$$?; if [ $$code = 3 ]; then echo "make: some pull requests are drafts: their owners have to act"; else exit $$code; fi

.PHONY: fleet-close
fleet-close: $(READY) ## close the pull requests of a release that is withdrawn (VERSION=vX.Y.Z)
	@$(if $(value VERSION),,echo 'make: which release? make fleet-close VERSION=vX.Y.Z' >&2; exit 2;) $(FLEET) close --html build/fleet.html $(call given,VERSION,to)

.PHONY: bench-fleet
bench-fleet: $(READY) ## measure the fleet tool into benchmarks/results/fleet.json
	@$(PYTHON) -W ignore -m benchmarks.fleet.run
