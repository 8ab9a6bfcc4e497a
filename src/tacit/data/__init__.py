"""Data to try the library on, and data from files.

Every generator follows a generative model that its documentation states, takes a seed, and returns the data
together with the factors they were made from, so that a fit can be compared with what it should have found.
The draws come from an ordinary generator: this is example data, not noise that protects anybody.

Every reader takes real files, refuses what it cannot read by an error that names the file, and never unpickles.
"""

from tacit.data.contamination import Contaminated, contaminate
from tacit.data.documents import Documents, make_documents
from tacit.data.images import Images, make_images
from tacit.data.pictures import Pictures, read_pictures
from tacit.data.ratings import Ratings, make_ratings
from tacit.data.schema import CategoryColumn, ColumnSpec, IntegerColumn, NumberColumn, TableSchema
from tacit.data.tables import Matrix, read_matrix, read_terms
from tacit.data.tensors import Coupled, make_coupled
from tacit.data.texts import TermCounts, TermWeights, Texts, read_texts, term_counts, tfidf

__all__ = [
    "CategoryColumn",
    "ColumnSpec",
    "Contaminated",
    "Coupled",
    "Documents",
    "Images",
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
    "make_coupled",
    "make_documents",
    "make_images",
    "make_ratings",
    "read_matrix",
    "read_pictures",
    "read_terms",
    "read_texts",
    "term_counts",
    "tfidf",
]
