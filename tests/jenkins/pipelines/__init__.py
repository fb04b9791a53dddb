"""The pipelines of children and of this repository, executed."""
