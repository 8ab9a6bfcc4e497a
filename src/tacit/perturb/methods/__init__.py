"""Methods that change a table, one per file. None has a formal guarantee.

They are those of Thapa (2013), and rotation. May be imported by the rest of `perturb` and by whoever may import
`perturb`.
"""
