"""The update that children have as scripts/update, for any child: python hooks/safe_update.py --repository ../child"""

import sys

import runtime_source  # noqa: F401

# isort: split
from gpu_repo_runtime.update.cli import main

if __name__ == "__main__":
    sys.exit(main())
