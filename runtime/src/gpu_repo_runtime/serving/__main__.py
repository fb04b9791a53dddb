"""The service as a command: ``python -m gpu_repo_runtime.serving PACKAGE``."""

import argparse
import faulthandler
import importlib.util
import sys
import traceback
from pathlib import Path

from pydantic import ValidationError

from ..contract import ContractError, import_model
from ..cores import fit_threads
from ..words import words_of
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
    return f"the model could not be loaded: {place}: {type(error).__name__}: {words_of(error)}{hint}"


def serve(package: str) -> None:
    """Run the service around ``<package>.model.Model`` until it is told to stop; ends the process."""
    faulthandler.enable(2)  # a library that crashes takes Python with it, which then can say nothing
    fit_threads()
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        print(f"there is no package {package} here: call it where src/ is on PYTHONPATH", file=sys.stderr)
        sys.exit(EXIT_CONFIGURATION)
    try:
        # Only now: NumPy and the framework decide on their threads when they are imported.
        from .hooks import find_hooks
        from .server import main

        model, hooks = import_model(package), find_hooks(package)
    except ContractError as error:
        print(f"refusing to start: {error}", file=sys.stderr)
        sys.exit(EXIT_CONFIGURATION)
    except (Exception, SystemExit) as error:
        print(cannot_import(error, Path(found.origin).parent), file=sys.stderr)
        sys.exit(1)

    try:
        main(model, hooks)
    except ValidationError as error:
        for fault in faults(error, hooks.settings):
            print(f"refusing to start: {fault}", file=sys.stderr)
        sys.exit(EXIT_CONFIGURATION)
    except SystemExit as error:  # of the owner's Settings; main never returns
        print(f"the settings in service.py ended the process: SystemExit: {words_of(error)}", file=sys.stderr)
        sys.exit(1)


def list_settings(package: str | None) -> None:
    """Print every environment variable that sets the service, the owner's too, with its default and what it does."""
    from .hooks import find_hooks

    try:
        settings = find_hooks(package).settings if package else Settings
    except SystemExit as error:
        sys.exit(f"service.py ended the process while it was imported: SystemExit: {words_of(error)}")
    for name, field in variables(settings).items():
        default = "(required)" if field.is_required() else str(field.default)
        print(f"{f'{name}={default}':30} {field.description or ''}")


def main(package: str | None = None) -> None:
    """Read the command line and serve ``package``, or the package that the command line names."""
    program = f"python -m {package}.serving" if package else "python -m gpu_repo_runtime.serving"
    parser = argparse.ArgumentParser(
        prog=program,
        description="Run the service until it is stopped. Environment variables set it, for example PORT=9000.",
        add_help=False,
    )
    if package is None:
        parser.add_argument("package", nargs="?", help="the package that contains model.py")
    parser.add_argument("--settings", action="store_true", help="only list the environment variables")
    parser.add_argument("--help", "-h", action="store_true", help="show this help and the environment variables")
    options = parser.parse_args()
    package = package or options.package
    if options.help:
        parser.print_help()
        print("\nenvironment variables:")
    if options.help or options.settings:
        list_settings(package)
    elif package:
        serve(package)
    else:
        parser.error("name the package that contains model.py")


if __name__ == "__main__":
    main()
