"""The base of all models: the private fit, fits among holders, checks of input, saving, and the registry of models.

May be imported by all packages except `channel`, `data`, `measure`, `privacy` and `testing`.
"""
