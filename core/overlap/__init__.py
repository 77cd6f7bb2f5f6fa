"""G5: safe beside tables that other publishers have released (Baig; docs/design.md, "Other publishers").

`external` reads other publishers' groups and keeps them, `region_index` finds the rows that lie in their regions,
`overlaps` says what a group must show beside them. `formation` has Baig's phases by name: groups are found by
`even_groups`, `uneven_groups` and one by one on an `assembly`; `generalize` is the last phase. `carried` looks at what
was published before. Every number of the search is in `tuning`.
"""
