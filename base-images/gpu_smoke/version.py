"""The program's version, in every report. Not in ``__init__``: a zipapp of this folder has no such module."""

VERSION = "2.0.0"
