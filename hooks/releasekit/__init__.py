"""The parts of hooks/release_check.py, one job a file."""
