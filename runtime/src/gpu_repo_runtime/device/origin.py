"""Who raised an error: the project, whose words may repeat an input, or a library."""

import dis
import re
from pathlib import Path

# The folders of what pip installs, on Debian too.
_PACKAGES = frozenset({"site-packages", "dist-packages"})
# What pools of processes give as the cause of an error that came from one of them.
_REMOTE = frozenset({"_RemoteTraceback", "RemoteTraceback"})
_FRAME = re.compile(r'^  File "(.+)", line \d+, in .*\n    (.*)$', re.MULTILINE)
_sources: Path | None = None


def is_project(package: Path) -> None:
    """Take in where the project's package is: what lies elsewhere is a library, also one that is installed editable."""
    global _sources
    around = package if package.parent.name in _PACKAGES else package.parent
    _sources = around.parent if around.name == "src" else around


def raised_by_project(error: BaseException) -> bool:
    """Tell whether a ``raise`` of the project raised it, whose words may repeat an input, and no call of a library."""
    if (remote := _remote_traceback(error)) is not None:
        return _raised_by_project_remotely(error, remote)
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    if place is None:
        return False
    code = place.tb_frame.f_code
    raised = code.co_code[place.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raised and _is_of_project(code.co_filename)


def with_causes(error: BaseException) -> list[BaseException]:
    """Return the error and what led to it; the text that a pool of processes gives for a traceback is no error."""
    found: list[BaseException] = []
    next_: BaseException | None = error
    while next_ is not None and all(next_ is not one for one in found):
        found.append(next_)
        next_ = next_.__cause__ or next_.__context__  # what "from None" hides has happened all the same
    return [one for one in found if type(one).__name__ not in _REMOTE]


def _is_of_project(file: str) -> bool:
    path = Path(file)
    if _sources is None:
        return _PACKAGES.isdisjoint(path.parts)
    return path.is_relative_to(_sources) and _PACKAGES.isdisjoint(path.relative_to(_sources).parts)


def _remote_traceback(error: BaseException) -> str | None:
    text = getattr(error.__cause__, "tb", None)
    return text if type(error.__cause__).__name__ in _REMOTE and isinstance(text, str) else None


def _raised_by_project_remotely(error: BaseException, text: str) -> bool:
    """Read the last frame from the text; the message at its end is no part of it, as it may look like one."""
    message = str(error)
    before, found, _ = text.rpartition(f": {message}") if message else (text, text, "")
    frames = _FRAME.findall(before)
    if not (found and frames):
        return True
    file, line = frames[-1]
    return line.startswith("raise") and _is_of_project(file)
