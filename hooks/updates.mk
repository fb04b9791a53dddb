# Targets around updates and releases; included by the Makefile.

.PHONY: release-check
release-check: $(READY) ## compare the last release with the work tree, reject what would hurt children (ARGS=--whole: every answer set)
	@.ci/room release-check
	@$(PYTHON) -W ignore hooks/release_check.py $(ARGS)

.PHONY: release
release: $(READY) ## release a version: make release VERSION=x.y.z (PUSH=1 pushes it)
	@$(PYTHON) hooks/release.py cut "$(VERSION)" $(if $(PUSH),--push)

.PHONY: tags
tags: $(READY) ## tag every release that has no tag in this clone
	@$(PYTHON) hooks/release.py tags

.PHONY: demo-update
demo-update: $(READY) ## show an update: a child of the release before, an owner's edits, what is merged and kept (TYPE=service|batch|library)
	@$(PYTHON) hooks/demo_update.py --type $(TYPE)

# What a pipeline's parameter may hold is never text of a recipe: the shell reads it from the environment, as it stands.
# $(call given,NAME,option) is --option="$NAME" where NAME is set; $(call typed,...) only where it is typed behind make,
# since a variable of a build must not take a check away.
given = $(if $(value $(1)),--$(2)="$$$(1)")
typed = $(if $(findstring command line,$(origin $(1))),$(call given,$(1),$(2)))

FLEET := $(PYTHON) -W ignore hooks/fleet.py --fleet="$${FLEET_FILE:-fleet.yml}"

.PHONY: fleet-list
fleet-list: $(READY) ## write build/listed.yml: fleet.yml with the children that its hosts list (needs their tokens; the plan then needs none)
	@$(FLEET) list build/listed.yml

.PHONY: fleet-plan
fleet-plan: $(READY) ## plan an update of all children (TEMPLATE=address VERSION=vX.Y.Z FLEET_FILE=fleet.yml TEST_OPTIONS='--test-env NAME')
	@$(FLEET) plan --template="$$TEMPLATE" $(call given,VERSION,to) --test 'scripts/setup && scripts/test' $(if $(findstring command line,$(origin TEST_OPTIONS)),$(TEST_OPTIONS)); \
	code=$$?; case $$code in 3 | 4 | 5 | 6) echo "make: some children need a person (exit code $$code), see build/fleet/fleet.html" ;; *) exit $$code ;; esac

.PHONY: fleet-apply
fleet-apply: $(READY) ## push the planned updates of one wave (WAVE=canary|early|rest MAX_OPEN=number)
	@test -n "$$WAVE" || { echo 'make fleet-apply: which wave? WAVE=canary, then WAVE=early, then WAVE=rest' >&2; exit 2; }
	@$(FLEET) apply --wave="$$WAVE" $(call given,MAX_OPEN,max-open); \
	code=$$?; case $$code in 3 | 4 | 5) echo "make: what could be pushed was; some children need a person (exit code $$code)" ;; *) exit $$code ;; esac

.PHONY: bench-fleet
bench-fleet: $(READY) ## measure the fleet tool into benchmarks/results/fleet.json
	@$(PYTHON) -W ignore -m benchmarks.fleet.run

.PHONY: bench-fleet-hosts
bench-fleet-hosts: $(READY) ## play a fleet with odd children through releases and rollbacks into benchmarks/results/fleet-hosts.json
	@$(PYTHON) -W ignore -m benchmarks.fleet.hosts $(ARGS)

.PHONY: bench-histories
bench-histories: $(READY) ## play random histories with killed updates into benchmarks/results/histories.json
	@$(PYTHON) -W ignore -m benchmarks.fleet.histories $(ARGS)

.PHONY: host-apis
host-apis: $(READY) ## cut what the fleet tool uses out of GitHub's published description, for the tests (needs npm)
	@$(PYTHON) -m tests.updates.apis.cut
