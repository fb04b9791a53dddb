"""What `make adopt` does: read an old repository, plan what joins it, and write it on a branch of its own."""
