"""The parts of hooks/fleet.py, one job a file."""
