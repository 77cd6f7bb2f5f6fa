"""Every number of the lasting engine that is a choice, with its reason."""

from typing import Final

# Entries that ended under one signature are looked at together, BATCH times l at a time. Two times l is the smallest
# batch in which more than half of all draws are mixed; a larger one keeps places empty for longer.
BATCH: Final = 1

# Rows of a group: small enough to say something about a region, large enough that one who leaves is one of many.
ROWS_AT_FIRST: Final = 32
ROWS_AT_MOST: Final = 64

# Rows of a plain group or of a group of "*": nothing is hidden by their size, so it is a matter of record length.
PLAIN_ROWS: Final = 64

# The largest share of a group that may be counterfeits (docs/design.md, "Balancing").
COUNTERFEITS_IN_GROUP: Final = 4  # one in four

# Entries of one neighbourhood, in which signatures are given first, and how much larger each further one is.
NEIGHBOURHOOD: Final = 256
NEIGHBOURHOOD_GROWTH: Final = 8

# Values that at least so many newcomers have are put into signatures by frequency; below that, chance decides anyway.
LEAST_PEELED: Final = 3

# Other publishers' regions that are compared with all others at once: what fits into a processor's cache.
REGIONS_AT_ONCE: Final = 256
