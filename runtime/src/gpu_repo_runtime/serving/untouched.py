"""Whether methods are the ones that their library wrote: agents for traces, errors and logs put theirs in the place."""

import sys
from collections.abc import Iterable
from types import FunctionType


class Untouched:
    """Methods of classes, each as its class has it now."""

    def __init__(self, methods: Iterable[tuple[type, str]]) -> None:
        self._found = [(kind, name, vars(kind)[name]) for kind, name in dict.fromkeys(methods) if name in vars(kind)]
        self.as_written = all(_is_of_its_module(kind, method) for kind, _, method in self._found)

    def still(self) -> bool:
        """Whether they are as written, and nobody has put others in their place since."""
        return self.as_written and all(vars(kind)[name] is method for kind, name, method in self._found)


def _is_of_its_module(kind: type, method: object) -> bool:
    return type(method) is FunctionType and method.__globals__ is vars(sys.modules[kind.__module__])
