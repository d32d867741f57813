"""`python -m smartpubsub` is the command `smartpubsub`."""

import sys

from smartpubsub.cli.main import main

sys.exit(main())
