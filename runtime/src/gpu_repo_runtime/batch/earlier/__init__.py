"""The modules that a batch job of version 0.1 or 0.2 imports from its own ``job``, by the same names.

Its ``job/__init__.py`` takes PATH as its ``__path__``, so that tests and commands written then go on working.
"""

from pathlib import Path

PATH = [str(Path(__file__).parent)]
