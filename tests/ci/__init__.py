"""Pipelines of children and of this repository, executed by local runners; docs/ci.md says what those leave out."""
