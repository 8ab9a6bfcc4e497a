"""The models: programs over a channel, and the estimators that run them."""

from tacit.factor.moments import PrivateMoments
from tacit.factor.nmf.choose_rank import RankChoice, choose_rank
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.private import PrivateNMF
from tacit.factor.saved import load

__all__ = [
    "NMF",
    "PrivateMoments",
    "PrivateNMF",
    "RankChoice",
    "choose_rank",
    "load",
]
