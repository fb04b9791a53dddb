"""Which frameworks can be asked: each has a file layers/framework_NAME.py."""

from __future__ import annotations

import pkgutil

from . import layers

# Where several are installed these count first: others come along with packages that can use them.
FIRST = ("torch", "tensorflow")
FOUND = [
    part[2]
    for module in pkgutil.iter_modules(layers.__path__)
    if (part := module.name.partition("_"))[0] == "framework"
]
FRAMEWORKS = (*FIRST, *sorted({name for name in FOUND if name} - set(FIRST)))
