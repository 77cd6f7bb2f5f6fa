"""G5: safe beside tables that other publishers have already released (Baig; DESIGN, sections 3 and 6).

`external` reads other publishers' groups and keeps them, `index` finds whose quasi-identifiers lie in which of them,
`beside` says what a group must show next to them, `phases` has Baig's five phases by name, of which `generalize` is the
last.
"""
