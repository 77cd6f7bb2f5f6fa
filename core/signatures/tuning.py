"""Every number of the lasting engine that is a choice, with its reason."""

from typing import Final

# Rows of a group: small enough to say something about a region, large enough that one who leaves is one of many.
ROWS_AT_FIRST: Final = 32
ROWS_AT_MOST: Final = 64

# Rows of a plain group or of a group of "*": nothing is hidden by their size, so it is a matter of record length.
PLAIN_ROWS: Final = 64

# The largest share of a group that may be counterfeits (docs/design.md, "Balancing").
COUNTERFEITS_IN_GROUP: Final = 4  # one in four

# A release should not have more than this part of the counterfeits that its policy allows. Beyond it no round is begun
# with one, and a round that lacks IDLE times as many as it has is given up: one "*" that comes back says less than
# three counterfeits say falsely.
COUNTERFEITS_ENOUGH: Final = 0.5
IDLE: Final = 3

# Entries of one neighbourhood, in which signatures are given first, and how much larger each further one is.
NEIGHBOURHOOD: Final = 256
NEIGHBOURHOOD_GROWTH: Final = 8

# Neighbourhoods in which values are compared: of so many newcomers at least, and at most so many of them. Values occur
# near each other if their counts differ from chance by so many standard deviations.
NEAR_ENTRIES: Final = 64
NEIGHBOURHOODS_COMPARED: Final = 256
NEARNESS_SURE: Final = 5

# Values that at least so many newcomers have are put into signatures by frequency; below that, chance decides anyway.
LEAST_PEELED: Final = 3

# Other publishers' regions that are compared with all others at once: what fits into a processor's cache.
REGIONS_AT_ONCE: Final = 256

# A value passes if its rows end more than half as often as all rows do. Most rows are of values that stay.
PASSING: Final = 0.5

# The rate of a value is drawn to that of all values as by so many ends, and the estimate takes so many steps.
PRIOR_ENDS: Final = 0.3
RATE_STEPS: Final = 30

# The rows of every signature are counted in each of the first releases, and then in one of so many.
COUNTED_EACH_TIME: Final = 16
COUNTED_EVERY: Final = 8

# Signatures in use that are weighed newcomer by newcomer: those for which there are most newcomers, of whom most fit.
SIGNATURES_WEIGHED: Final = 8

# Where at least this share of the newcomers is picky, rounds are made newcomer by newcomer from the start: rounds that
# are packed by counts alone would mostly be undone. Below it packing pays: it puts values together that occur together.
PICKY_AT_MOST: Final = 0.35
