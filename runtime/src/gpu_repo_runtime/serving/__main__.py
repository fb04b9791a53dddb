"""The service as a command: ``python -m gpu_repo_runtime.serving PACKAGE``."""

import argparse
import faulthandler
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from ..contract import ContractError, import_model
from ..cores import fit_threads
from .errors import EXIT_CONFIGURATION
from .settings import Settings, faults, variables


def cannot_import(error: BaseException, source: Path) -> str:
    """Return one line about an error in the project's own code below ``source``, or a package that is not there."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(source)] or frames
    place = f"{own[-1].filename}:{own[-1].lineno}"
    if isinstance(error, SyntaxError):
        place, error = f"{error.filename}:{error.lineno}", SyntaxError(error.msg)
    missing = isinstance(error, ModuleNotFoundError)
    hint = "; a package comes with pyproject.toml, scripts/lock and scripts/setup" if missing else ""
    return f"the model could not be loaded: {place}: {type(error).__name__}: {error}{hint}"


def serve(package: str) -> None:
    """Run the service around ``<package>.model.Model`` until it is told to stop; ends the process."""
    faulthandler.enable(2)  # a library that crashes takes Python with it, which then can say nothing
    fit_threads()
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        _refuse(f"there is no package {package} here: call it where src/ is on PYTHONPATH")
    try:
        # Only now: NumPy and the framework decide on their threads when they are imported.
        from .app import find_hooks
        from .server import main

        model, (settings, extend) = import_model(package), find_hooks(package)
    except ContractError as error:
        _refuse(f"refusing to start: {error}")
    except (Exception, SystemExit) as error:
        print(cannot_import(error, Path(str(found.origin)).parent), file=sys.stderr)
        sys.exit(1)
    try:
        main(model, settings, extend)
    except ValidationError as error:
        _refuse("\n".join(f"refusing to start: {fault}" for fault in faults(error, settings)))


def _refuse(words: str) -> NoReturn:
    print(words, file=sys.stderr)
    sys.exit(EXIT_CONFIGURATION)


def list_settings(package: str | None) -> None:
    """Print every environment variable that sets the service, the owner's too, with its default and what it does."""
    from .app import find_hooks

    print("\nenvironment variables:")
    settings = find_hooks(package)[0] if package else Settings
    for name, field in variables(settings).items():
        default = "(required)" if field.is_required() else str(field.default)
        print(f"{f'{name}={default}':30} {field.description or ''}")


def main(package: str | None = None) -> None:
    """Read the command line and serve ``package``, or the package that the command line names."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {package or 'gpu_repo_runtime'}.serving",
        description="Run the service until it is stopped. Environment variables set it, for example PORT=9000.",
        add_help=False,
    )
    if package is None:
        parser.add_argument("package", nargs="?", help="the package that contains model.py")
    parser.add_argument("--settings", action="store_true", help="list the environment variables, as --help does")
    parser.add_argument("--help", "-h", action="store_true", dest="settings", help="show this help")
    options = parser.parse_args()
    package = package or options.package
    if options.settings:
        parser.print_help()
        list_settings(package)
    elif package:
        serve(package)
    else:
        parser.error("name the package that contains model.py")


if __name__ == "__main__":
    main()
