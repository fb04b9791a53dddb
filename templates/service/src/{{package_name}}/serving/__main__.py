"""``python -m <package>.serving``: run the service; see settings.py for the environment variables it reads."""

import sys
import traceback
from pathlib import Path

from pydantic import ValidationError

from ..cores import fit_threads
from .errors import EXIT_CONFIGURATION

SOURCE = Path(__file__).parents[1]


def cannot_import(error: Exception) -> str:
    """Return one line about an error in the project's own code, or a package that is not there."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(SOURCE)]
    place = f"{own[-1].filename}:{own[-1].lineno}"
    if isinstance(error, SyntaxError):
        place, error = f"{error.filename}:{error.lineno}", SyntaxError(error.msg)
    missing = isinstance(error, ModuleNotFoundError)
    hint = "; a package comes with pyproject.toml, scripts/lock and scripts/setup" if missing else ""
    return f"the model could not be loaded: {place}: {type(error).__name__}: {error}{hint}"


if __name__ == "__main__":
    fit_threads()
    try:
        # Only now: NumPy and the framework decide on their threads when they are imported.
        from .server import main
    except Exception as error:
        print(cannot_import(error), file=sys.stderr)
        sys.exit(1)

    try:
        main()
    except ValidationError as error:
        for fault in error.errors():
            name = ".".join(map(str, fault["loc"])).upper()
            print(f"refusing to start: {name + ': ' if name else ''}{fault['msg']}", file=sys.stderr)
        sys.exit(EXIT_CONFIGURATION)
