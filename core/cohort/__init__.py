"""Permanent values: holders, decoys, containers, buddies, cohorts and cliques (Bu, sections 3 and 4; DESIGN, G3).

`clique.py` is the state, `registration.py` who could pass for whom, `container.py` where, `roles.py` the cases of the
paper by their names, `abundance.py` the K-buddy condition in every release, `everyone.py` the rules of
`participation: all`, `ties.py` what all of it asks of group formation.
"""
