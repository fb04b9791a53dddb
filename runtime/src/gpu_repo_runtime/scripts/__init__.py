"""What the scripts of a repository do: they start it straight from the wheel, with the standard library alone."""
