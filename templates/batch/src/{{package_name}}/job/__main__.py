"""Start the job's command line: python -m <package>.job"""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
