"""Load tests of the service: scripts/bench."""
