# Targets around updates and releases; included by the Makefile.

.PHONY: release-check
release-check: $(READY) ## show what the next release changes in children, and refuse what would hurt them
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

# What comes from a parameter of a pipeline is read by the shell from its environment: make would run a $(shell ...) in it.
FLEET = $(PYTHON) -W ignore hooks/fleet.py --fleet "$${FLEET_FILE:-fleet.yml}"

.PHONY: fleet-list
fleet-list: $(READY) ## write build/listed.yml: fleet.yml with the children that its hosts list (needs their tokens; the plan then needs none)
	@$(FLEET) list build/listed.yml

.PHONY: fleet-plan
fleet-plan: $(READY) ## plan an update of all children (TEMPLATE=address VERSION=vX.Y.Z FLEET_FILE=fleet.yml TEST_OPTIONS='--test-env NAME')
	@$(FLEET) plan --template="$$TEMPLATE" $${VERSION:+"--to=$$VERSION"} --test 'scripts/setup && scripts/test' $(TEST_OPTIONS); \
	code=$$?; case $$code in 3 | 4 | 5 | 6) echo "make: some children need a person (exit code $$code), see build/fleet/fleet.html" ;; *) exit $$code ;; esac

.PHONY: fleet-apply
fleet-apply: $(READY) ## push the planned updates of one wave (WAVE=canary|early|rest)
	@$(FLEET) apply --wave="$${WAVE:-none given}"; \
	code=$$?; case $$code in 3 | 4 | 5) echo "make: what could be pushed was; some children need a person (exit code $$code)" ;; *) exit $$code ;; esac

.PHONY: bench-fleet
bench-fleet: $(READY) ## measure the fleet tool into benchmarks/results/fleet.json
	@$(PYTHON) -W ignore benchmarks/fleet/run.py

.PHONY: audit
audit: $(READY) ## ask the Python advisory database about every package of every lock
	@$(PYTHON) hooks/audit.py
