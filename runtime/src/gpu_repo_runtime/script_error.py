"""How a script ends that did not do what it was asked for."""


class ScriptError(Exception):
    """The message says why and what to do, "" where that was said already; `code` is the exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
