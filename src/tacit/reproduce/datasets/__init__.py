"""Readers of the data sets of the papers, in their official formats; each module registers some.

May be imported by the other packages of `reproduce`.
"""
