"""`python -m streams.cli` is the command `shoal`."""

import sys

from streams.cli import main

sys.exit(main())
