"""``python -m <package>.serving``: run the service; see settings.py for the environment variables it reads."""

import sys

from pydantic import ValidationError

from .errors import EXIT_CONFIGURATION

if __name__ == "__main__":
    from .server import main

    try:
        main()
    except ValidationError as error:
        for fault in error.errors():
            name = ".".join(map(str, fault["loc"])).upper()
            print(f"refusing to start: {name + ': ' if name else ''}{fault['msg']}", file=sys.stderr)
        sys.exit(EXIT_CONFIGURATION)
