"""One module per layer of the GPU call stack: ``probe`` asks in a child process, ``evaluate`` judges the facts."""
