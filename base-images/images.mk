# The base images; the Makefile at the root includes this file. IMAGE=name chooses one row of catalog.yml.
# Empty counts as unset, as a variable of CI that does not exist.
export REGISTRY := $(or $(value REGISTRY),$(shell sed -nE 's/^registry: *"?([^ "]+).*/\1/p' company.yml))
IMAGE_TOOLS = PYTHONPATH=base-images:runtime/src $(PYTHON) -m image_tools
CHOSEN = $(call given,IMAGE,image) $(call given,REGISTRY,registry) $(call given,STAGING,staging)

.PHONY: check-catalog
check-catalog: $(READY) ## prove the rows of the image catalogue against their locks
	@$(IMAGE_TOOLS) check $(CHOSEN)

.PHONY: pipelines
pipelines: $(READY) ## write the rows of the catalogue into the pipelines of this repository
	@$(IMAGE_TOOLS) pipelines

.PHONY: lock
lock: $(READY) ## resolve the lock of an image again and show what changed since the last release (IMAGE=name; UPGRADE=1 takes newer versions)
	@$(IMAGE_TOOLS) lock $(CHOSEN) $(if $(value UPGRADE),--upgrade)

.PHONY: images
images: $(READY) ## build the base images one after another (IMAGE=name for one; DEVEL=1 with a compiler)
	@$(IMAGE_TOOLS) build $(CHOSEN) $(if $(value DEVEL),--devel)

.PHONY: push
push: $(READY) ## push built images to a staging tag in REGISTRY-staging (STAGING=elsewhere)
	@$(IMAGE_TOOLS) push $(CHOSEN) $(call given,SIGN,sign)

.PHONY: smoke-digest
smoke-digest: $(READY) ## smoke a pushed digest on this machine's GPU (IMAGE=name; DIGEST=sha256:... if not pushed from here)
	@$(IMAGE_TOOLS) smoke-digest $(CHOSEN) $(call typed,DIGEST,digest) $(call typed,REQUIRE,require)

.PHONY: promote
promote: $(READY) ## smoke a digest on this machine's GPU and give it the release tags (IMAGE=name, DIGEST=sha256:...; REQUIRE=none without a GPU)
	@$(if $(value RECORD),mkdir -p "$$(dirname "$$RECORD")" &&) $(IMAGE_TOOLS) promote $(CHOSEN) $(call typed,DIGEST,digest) $(call given,PUSHED,pushed) \
	    $(call given,RECORD,record) $(call typed,REQUIRE,require) $(call given,SMOKE,smoke) \
	    $(call given,SIGN,sign) $(if $(value ONLY_CHANGED),--only-changed)

.PHONY: roll-back
roll-back: $(READY) ## let children build on an image's release before again (IMAGE=name; DIGEST=sha256:... for another)
	@$(IMAGE_TOOLS) roll-back $(CHOSEN) $(call typed,DIGEST,digest)

.PHONY: verify
verify: $(READY) ## check signature and provenance of a released image (IMAGE=name; DIGEST=sha256:... for another)
	@$(IMAGE_TOOLS) verify $(CHOSEN) $(call typed,DIGEST,digest)

.PHONY: records
records: $(READY) ## take the release records that CI archived into this repository (FROM=folder)
	@$(IMAGE_TOOLS) records $(if $(value FROM),"$$FROM")

.PHONY: sbom
sbom: $(READY) ## list the packages of built images as SPDX in build/images/sbom (IMAGE=name)
	@$(IMAGE_TOOLS) sbom $(CHOSEN)

.PHONY: scan
scan: $(READY) ## look for known vulnerabilities in built images with Trivy (IMAGE=name)
	@$(IMAGE_TOOLS) sbom --scan $(CHOSEN)

.PHONY: test-images
test-images: $(READY) ## build the base images and test them (needs a Docker Engine; IMAGE=name for one row, TESTS=file for some)
	@.ci/room test-images
	@$(PYTHON) -m tests.needs test-images docker
	@PYTHONPATH=base-images $(PYTHON) -m pytest -m images -p no:cacheprovider $(or $(TESTS),tests/images tests/service \
	    tests/ci/test_real_docker.py $(if $(filter-out plain-cu13,$(IMAGE)),,tests/journeys)) $(ARGS)
