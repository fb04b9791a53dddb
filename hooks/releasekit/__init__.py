"""The steps of the release check."""
