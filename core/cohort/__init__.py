"""Permanent values: holders, decoys, containers, buddies, cohorts and cliques (Bu, sections 3 and 4).

(docs/design.md, "G3 Permanent" and "Permanent values".) `clique` is the state and `registration` a view of the people
registered. `draft` holds what one release's update works on. `roles` has the cases of the paper by name, with
`container` for the size of containers; `abundance` is the K-buddy condition in every release, `participation_all` the
rules of `participation: all`. `ties` says what cliques ask of group formation, and `update` runs it all.
"""
