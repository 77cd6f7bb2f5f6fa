"""Every number of the lasting engine that is a choice, with its reason."""

from typing import Final

# Rows of a group: few enough to say something about a region.
ROWS_AT_MOST: Final = 64

# Rows of a plain group or of a group of "*": nothing is hidden by their size, so it is a matter of record length.
PLAIN_ROWS: Final = 64

# If more than this share of the newcomers does not fit the rounds that are laid by counts alone, all rounds are built
# one by one.
UNFIT_AT_MOST: Final = 0.1

# Newcomers of a value that are tried until one fits.
CANDIDATES_TRIED: Final = 16

# Those who are left without a round and are tried again at once, the rounds that are taken apart for them, and how often
# that may fail to help.
MENDED_AT_ONCE: Final = 16
MENDED_WITH: Final = 24
MENDED_IN_VAIN: Final = 20

# Rounds that are dealt again with each one that avoided a value which is starred now: enough for its signature to come
# out as if the value had never been there.
DEALT_AGAIN_WITH: Final = 24

# Other publishers' regions that are compared with all others at once: what fits into a processor's cache.
REGIONS_AT_ONCE: Final = 256

# A value passes if its rows end more than half as often as all rows do. Most rows are of values that stay.
PASSING: Final = 0.5

# The rate of a value is drawn to that of all values as by so many ends, and the estimate takes so many steps.
PRIOR_ENDS: Final = 0.3
RATE_STEPS: Final = 30
