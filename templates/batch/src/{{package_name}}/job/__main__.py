"""Start the job's command line: python -m <package>.job"""

import sys

from ..cores import fit_threads

if __name__ == "__main__":
    fit_threads()
    # Only now: NumPy and the framework decide on their threads when they are imported.
    from .cli import main

    sys.exit(main())
