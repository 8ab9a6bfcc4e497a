"""Tsikhanovich et al. (2019): distributed factorisation with lightweight cryptography."""

from tacit.reproduce.tsikhanovich import gains, joint_models, normed_sums, presence, starts

__all__ = ["gains", "joint_models", "normed_sums", "presence", "starts"]
