"""Synthetic data with a known truth, to try the library on and to test it with.

Every generator follows a generative model that its documentation states, takes a seed, and returns the data
together with the factors they were made from, so that a fit can be compared with what it should have found.
The draws come from an ordinary generator: this is example data, not noise that protects anybody.
"""

from tacit.data.documents import Documents, make_documents
from tacit.data.images import Images, make_images
from tacit.data.ratings import Ratings, make_ratings
from tacit.data.tensors import Coupled, make_coupled

__all__ = [
    "Coupled",
    "Documents",
    "Images",
    "Ratings",
    "make_coupled",
    "make_documents",
    "make_images",
    "make_ratings",
]
