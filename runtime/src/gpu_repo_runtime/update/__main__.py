"""`python -m gpu_repo_runtime.update`: what scripts/update starts, from the wheel and before .venv is there."""

import sys


def main() -> int:
    """Update, and return the exit code: 130 where Ctrl-C came while Copier was still being imported."""
    try:
        from .cli import program
    except KeyboardInterrupt:
        print("update: stopped before it began, nothing was changed", file=sys.stderr)
        return 130
    return program()


if __name__ == "__main__":
    sys.exit(main())
