"""Every number that was chosen rather than derived in this room, and why it has its size.

None of them decides whether a promise holds: `promises.py` checks every group, exactly. They trade group size, how long
a budget lasts and the time a release takes against each other. A change here changes what is published.
"""

from typing import Final

# -- rounding -----------------------------------------------------------------------------------------------------

# Relative. Floats that differ by less are taken as equal where a wrong answer costs size and never a promise: a few
# hundred operations on doubles stay within it.
ROUNDING: Final = 1e-12
# Relative distance to a bound within which floats are not trusted and exact fractions decide. The product of a million
# survivals stays within it.
NEAR: Final = 1e-9
# A ratio that no group can reach. Infinity would do, but infinity times 0 is no number.
UNREACHABLE: Final = 1e300
# log(1 - w/n) where w is n: the log of 0 is no number, and nobody's survival gets as small as this.
SMALLEST_SURVIVAL: Final = 1e-300

# -- ledger -------------------------------------------------------------------------------------------------------

# Cells (people by leaves) of a table that accounts are added up in: 1 MB of doubles fits the cache of one core.
TABLE_CELLS: Final = 1 << 17
# Cells of a table of questions. Its cells are 4 bytes and most are never touched, so that it may be larger.
QUESTION_CELLS: Final = 1 << 20
# A table with more cells than this for each share added is mostly empty: sorting the shares is cheaper.
CELLS_PER_SHARE: Final = 8
# Going through this many shares in order costs as much as one search by halving.
SHARES_PER_SEARCH: Final = 4
# One unit's account is looked up by itself until the lookups cost as much as adding up everybody's accounts: so many
# exposures are added up in the time of one lookup.
EXPOSURES_PER_LOOKUP: Final = 64

# -- dealing (see the essay in deal.py) ---------------------------------------------------------------------------

# Groups of protected people grow up to so many times the strategy's ratio where open neighbours can fill them. Beyond
# it the fillers are from too far away, and regions in the group lose more than the budget gains.
LARGEST_GROWTH: Final = 4.0
# Bands of people by how much of their budget is spent; each band's groups are twice as large as the last one's. Four
# doublings are 16 times the size, and hardly any account asks for more before it is spent.
DOUBLINGS: Final = 4
# Open neighbours that fill a group, at most, for each protected person in a band of larger groups.
FILLERS: Final = 8
# Growth asked for by an account that is spent: more than any band gives, and finite.
SPENT_GROWTH: Final = 1e9
# Growth under which an account is not looked at: less than 2 ** 0.5, from which on a unit moves into the next band.
LEAST_GROWTH: Final = 1.4
# Groups that are dealt to together. More would spread equal values better and bring people from further away together.
GROUPS_PER_BLOCK: Final = 8
# Sizes to try, as multiples of the ratio: frequent values leave tight groups with people whom they cannot afford.
SLACKS: Final = (1.0, 1.25, 1.5)
# A looser deal is tried only while more than one protected unit in so many found no group.
TOLERATED_ALONE: Final = 10
# Rounds of taking out single units before whole groups are given up: each round may make another group too small.
ROUNDS: Final = 4

# -- ties ---------------------------------------------------------------------------------------------------------

# A tie seeds a group of at most so many times the strategy's ratio, besides its own people.
LARGEST_SEED: Final = 4
# Shares of the strategy's ratio that ties left over ask for, one after the other. A third of the ratio spends a budget
# about three times as fast, which is better than suppressing values.
TIE_SHARES: Final = (1.0, 0.3)
# Groups that a tie tries to join with values suppressed: each try works out the values to suppress, one by one.
STARRED_TRIES: Final = 4
# Other ties to each side, in the tree's order, that a tie left over may come together with.
TIES_AROUND: Final = 32
# A growing group is checked again when it is larger by this factor, so that checks cost no more than growing.
CHECK_AGAIN: Final = 1.1

# -- sweep and placing --------------------------------------------------------------------------------------------

# Units that a draft looks ahead to. In the tree's order people further away share few of the tree's cuts.
LOOK_AHEAD: Final = 128
# It halves down to this while one unit after the other finds nobody, so that a run of equal values costs linear time.
LEAST_AHEAD: Final = 8
# A draft takes no unit that makes it need more than so many times the strategy's base ratio.
LARGEST_DRAFT: Final = 1.5
# Units to each side among which a unit or a tie looks for a group to join.
REACH: Final = 96
# Groups that a unit or tie tries to join as it is, which is a quick check;
NEIGHBOURS: Final = 12
# and with values raised, which is a slow one.
RAISED_TRIES: Final = 3
# Groups whose standing is remembered. A standing is as long as the list of values, so that memory must be bounded.
REMEMBERED: Final = 256
