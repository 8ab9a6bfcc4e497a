"""The models: programs over a channel, and the estimators that run them.

May be imported by `synthetic`, `perturb`, `parties`, `cluster`, `report`, `reproduce`, `audit`, `app` and `cli`.
"""

from tacit.factor.coupled.cells import AllBut
from tacit.factor.coupled.plain.estimator import CoupledFactorization
from tacit.factor.coupled.relation import Relation
from tacit.factor.implicit.plain import ImplicitRecommender
from tacit.factor.implicit.private import PrivateImplicitRecommender
from tacit.factor.moments import PrivateMoments
from tacit.factor.nmf.choose_rank import RankChoice, choose_rank
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.private import PrivateNMF
from tacit.factor.ratings.non_negative import RatingNMF
from tacit.factor.ratings.plain import Recommender
from tacit.factor.ratings.private import PrivateRecommender
from tacit.factor.ratings.private_non_negative import PrivateRatingNMF
from tacit.factor.svd.estimator import SVD
from tacit.factor.svd.pca import PCA
from tacit.factor.svd.private import PrivatePCA, PrivatePCR, PrivateSVD
from tacit.factor.svd.regression import PrincipalComponentRegression

__all__ = [
    "NMF",
    "PCA",
    "SVD",
    "AllBut",
    "CoupledFactorization",
    "ImplicitRecommender",
    "PrincipalComponentRegression",
    "PrivateImplicitRecommender",
    "PrivateMoments",
    "PrivateNMF",
    "PrivatePCA",
    "PrivatePCR",
    "PrivateRatingNMF",
    "PrivateRecommender",
    "PrivateSVD",
    "RankChoice",
    "RatingNMF",
    "Recommender",
    "Relation",
    "choose_rank",
]
