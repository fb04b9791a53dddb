"""What `make adopt` promises."""
