.PHONY: bench-service
bench-service: $(READY) ## compare the service with two others and an earlier commit (ARGS="--before COMMIT"; half an hour; needs wrk)
	@PATH=$(CURDIR)/.venv/bin:$$PATH $(PYTHON) -m benchmarks.service.run $(ARGS)
