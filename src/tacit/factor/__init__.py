"""The models: programs over a channel, and the estimators that run them.

May be imported by `synthetic`, `perturb`, `parties`, `cluster`, `report`, `reproduce`, `audit`, `app` and `cli`.
"""
