"""G5: safe beside tables that other publishers have already released (Baig; DESIGN, sections 3 and 6).

`external` reads other publishers' groups and keeps them, `index` finds whose quasi-identifiers lie in which of them,
`balance` says what a group must show beside them, `phases` has Baig's five phases by name.
"""
