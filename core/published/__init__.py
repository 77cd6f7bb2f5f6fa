"""The one reader of releases: takes their records in order, checks the chain, and knows what stands after each.

`manifest.py` reads what a release says of itself, `chain.py` checks that releases follow one another, and `deltas.py`
puts together those that hold only what changed. Where the records come from, a topic or a folder, is the shell's
affair. The auditor has a reader of its own, which shares nothing with this one.
"""
