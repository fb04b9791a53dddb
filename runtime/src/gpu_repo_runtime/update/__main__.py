"""`python -m gpu_repo_runtime.update`: what scripts/update starts, from the wheel and before .venv is there."""

from .cli import main

raise SystemExit(main())
