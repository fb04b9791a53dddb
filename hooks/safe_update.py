"""The update that children have as scripts/update, for any child: python hooks/safe_update.py --repository ../child"""

import sys

import runtime_source  # noqa: F401

# isort: split
from gpu_repo_runtime.update.cli import main
from gpu_repo_runtime.update.utf8 import in_utf8

if __name__ == "__main__":
    in_utf8()
    sys.exit(main())
