"""Coupled factorisation: several matrices and tensors that share factors by name.

`plain` is without privacy, `private` with it, `local` for counts that leave their site with noise only; the modules
here serve all three. The algorithms are those of Ermis (2020), chapters 3 and 4. Within `factor`, may be imported by
nothing else.
"""
