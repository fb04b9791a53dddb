"""The modules that a repository of version 0.1 or 0.2 imports from its own ``serving``, by the same names.

Its ``serving/__init__.py`` takes PATH as its ``__path__``, so that tests and commands written then go on working.
"""

from pathlib import Path

PATH = [str(Path(__file__).parent)]
