# The documentation; included by the Makefile.

.PHONY: figures
figures: $(READY) ## write the figures and tables of README and docs from the result files and the catalogue
	@$(PYTHON) -m docs.figures

.PHONY: docs
docs: $(READY) ## build the documentation into build/site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet && echo 'make: build/site/index.html'

.PHONY: compatibility
compatibility: $(READY) ## find out again which packages fit which image, into base-images/<row>/compatibility.json (IMAGE=name; asks the package index; minutes)
	@$(PYTHON) -m benchmarks.images.compatibility $(call given,IMAGE,image)
