"""`python -m gpu_repo_runtime.update`: what scripts/update starts, from the wheel and before .venv is there."""

import sys

from .cli import program

if __name__ == "__main__":
    sys.exit(program())
