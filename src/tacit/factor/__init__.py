"""The models: programs over a channel, and the estimators that run them."""

from tacit.factor.moments import PrivateMoments
from tacit.factor.saved import load

__all__ = ["PrivateMoments", "load"]
