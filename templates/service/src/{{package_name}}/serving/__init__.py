"""The HTTP service around ``model.Model``: start it with ``python -m <package>.serving``.

This folder belongs to the template: an update may change it. Your own code is ``model.py``.
"""
