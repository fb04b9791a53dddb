"""The release check, step by step: the template, its children, their files, real updates."""
