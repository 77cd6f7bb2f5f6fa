"""`python -m shoal.streams.cli` is the command `shoal`."""

import sys

from shoal.streams.cli import main

sys.exit(main())
