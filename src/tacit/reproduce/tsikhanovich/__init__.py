"""Tsikhanovich et al. (2019): distributed factorisation with lightweight cryptography.

May be imported by `tacit.reproduce.catalogue`, which loads it when it is asked for, and by `claims`.
"""

from tacit.reproduce.tsikhanovich import gains, joint_models, normed_sums, presence, starts

__all__ = ["gains", "joint_models", "normed_sums", "presence", "starts"]
