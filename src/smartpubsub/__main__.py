"""`python -m smartpubsub` is the command `smartpubsub`."""

import sys

from smartpubsub.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
