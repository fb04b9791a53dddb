"""``python -m <package>.serving``: ``serving/__init__.py`` of a repository takes PATH as its ``__path__``."""

from pathlib import Path

PATH = [str(Path(__file__).parent)]
