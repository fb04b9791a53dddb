.PHONY: bench-service
bench-service: $(READY) ## compare the service with two others (takes wrk and half an hour; ARGS="--rounds 1" is quicker)
	@PATH=$(CURDIR)/.venv/bin:$$PATH $(PYTHON) -m benchmarks.service.run $(ARGS)
