"""`python -m gpu_repo_runtime.update`: what scripts/update starts, from the wheel and before .venv is there."""

import sys

from .cli import main
from .utf8 import in_utf8

if __name__ == "__main__":
    in_utf8()
    sys.exit(main())
