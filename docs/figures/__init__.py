"""Figures and tables of README and docs, written from the files that hold them; `make figures` runs it."""
