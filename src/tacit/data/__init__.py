"""Example data, and data from files.

Every generator has a generative model, which its documentation states. It takes a seed, and returns the data together with the
true factors, so that a fit can be compared with them. The draws come from an ordinary generator: they are not noise for privacy.

Every reader raises an error that names the file if it cannot read it, and never unpickles.

May be imported by all packages except `channel`, `measure`, `privacy` and `testing`.
"""

from tacit.data.constraints import AtMost, Determines, Implies
from tacit.data.contamination import Contaminated, contaminate
from tacit.data.documents import Documents, make_documents
from tacit.data.features import item_features
from tacit.data.images import Images, make_images
from tacit.data.pictures import Pictures, read_pictures
from tacit.data.ratings import Ratings, make_rating_parts, make_ratings
from tacit.data.schema import CategoryColumn, ColumnSpec, DateColumn, IntegerColumn, NumberColumn, TableSchema
from tacit.data.tables import Matrix, read_matrix, read_terms
from tacit.data.tensors import Coupled, make_coupled
from tacit.data.texts import (
    TermCounts,
    TermWeights,
    Texts,
    light_stem,
    read_text_lines,
    read_texts,
    read_vocabulary,
    stemmed,
    term_counts,
    tfidf,
)

__all__ = [
    "AtMost",
    "CategoryColumn",
    "ColumnSpec",
    "Contaminated",
    "Coupled",
    "DateColumn",
    "Determines",
    "Documents",
    "Images",
    "Implies",
    "IntegerColumn",
    "Matrix",
    "NumberColumn",
    "Pictures",
    "Ratings",
    "TableSchema",
    "TermCounts",
    "TermWeights",
    "Texts",
    "contaminate",
    "item_features",
    "light_stem",
    "make_coupled",
    "make_documents",
    "make_images",
    "make_rating_parts",
    "make_ratings",
    "read_matrix",
    "read_pictures",
    "read_terms",
    "read_text_lines",
    "read_texts",
    "read_vocabulary",
    "stemmed",
    "term_counts",
    "tfidf",
]
