r"""Topics of documents from a noisy mean and covariance: groups of words that occur together more often than by chance.

Documents have few of many words. A normal distribution with their moments, cut off at zero, is a poor model of them: the
synthetic rows of `tacit.factor.nmf.private` repeat the common words in all topics, and the noise of rare ones. Topics are found
from the covariance :math:`C` itself, of rows that are made as informative as their length, for which the noise is sized, allows:
their entries are replaced by the square roots (`flattened`), because a word that is repeated says little more about a topic than
one that occurs, and on the columns of the covariance they are clipped to `SHORTENING` of the usual length. A positive entry
:math:`C_{ij}` says that documents with the word i have the word j more often than others. A topic has few of the words, so
entries that are no larger than their noise are left out (`tacit.factor.noisy_moments.symmetric.leading_sparse`). Let :math:`C`
have its `k` strongest directions only (k topics have a covariance of rank k at most). Then

.. math:: G = \operatorname{diag}(C_{ii} + s)^{-1/2} \max(C - N, 0) \approx W T, \qquad W, T \ge 0

is factorised, where s is the standard deviation of the noise in an entry before the directions were found, and N that of the
noise which is left in an entry of C. To first order the directions' entries have independent errors, so that

.. math:: N_{ij} = s \sqrt{h_i + h_j}, \qquad h_i = \sum_{l \le k} u_{li}^2,

with the eigenvectors :math:`u_l`. The rows of G are words; the scale makes them about equally long, except for words whose
variance is below the noise. The diagonal of the released covariance is not used: how much a word varies by itself says nothing
about topics, and a common word would be a topic of its own (`tacit.factor.noisy_moments.symmetric.leading_off_diagonal`).

What the threshold takes from single entries is lost, although many of them together are clear of the noise. So the topics are
then fitted to the covariance :math:`\hat C` as it was released, off its diagonal, in a few sweeps of

.. math:: T_l \leftarrow \frac{\max(W_l' R_l - \sigma \|W_l\|, 0)}{\|W_l\|^2}, \qquad R_l = \hat C - \sum_{p \ne l} W_p T_p,

and the same for W (`refined`), where :math:`\sigma` is the standard deviation of the noise in an entry of :math:`\hat C`, and so
:math:`\sigma \|W_l\|` that of the noise in an entry of :math:`W_l' R_l`. The threshold comes after the sum over words in place of
before it [2]_. If fewer directions than topics rose above the noise, the topics stay as they are.

The threshold, the scale and the number of columns were chosen on Enron, TDT2, Reuters and posts of 20 newsgroups other than
those of docs/results/nmf.md; the roots, the shortening and the sweeps on these and citeulike.

References
----------
.. [1] O. Levy, Y. Goldberg. Neural word embedding as implicit matrix factorization. NIPS 2014: the positive part of a centred
   co-occurrence matrix, factorised.
.. [2] Z. Ma. Sparse principal component analysis and iterative thresholding. Ann. Stat. 2013: signed directions, without a
   diagonal that is left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.sparse import diags_array

from tacit.estimators.input import Rows, row_norms
from tacit.factor.arrays import Floats
from tacit.factor.nmf.program import factorise
from tacit.factor.noisy_moments.centred import TINY, CentredMoments

TOPIC_COLUMNS = 1200
"""Default maximum number of words in the covariance of a single fit, for time and memory. The noise allows fewer
(`tacit.factor.noisy_moments.centred.ALLOWED`)."""
SCHEDULED_TOPIC_COLUMNS = 500
"""The same for releases of a schedule, where the noise does not decide. Chosen between 300 and 500 on single fits of two
corpora."""
SHORTENING = 0.7
"""Rows are clipped to this part of the usual length on the columns of the covariance: long rows count less, and the noise is half
of what it would be. 0.5 was as good, 1 worse."""
REFINING_SWEEPS = 10
"""Sweeps of `refined`. Of 2, 5, 10, 20, 60 and 200, those from 5 to 20 had the most coherent topics on average over the corpora
on which the roots were chosen, at epsilon 3; with more, topics follow the noise."""


def flattened(rows: Rows) -> Rows:
    r"""Return the square roots of the entries of every row, scaled to the length of the row.

    That is :math:`\|x\| \sqrt{x} / \|\sqrt{x}\|`. A row that was clipped stays within its bound, up to rounding, which whoever
    sums the rows must clip. Every row is treated by itself, and rows that are multiples of each other stay so.
    """
    roots: Rows = np.sqrt(rows) if isinstance(rows, np.ndarray) else rows.sqrt()
    lengths = row_norms(roots)
    factors = row_norms(rows) / np.where(lengths > 0, lengths, 1.0)
    return roots * factors[:, None] if isinstance(roots, np.ndarray) else (diags_array(factors) @ roots).tocsr()


def topics_of(moments: CentredMoments, n_components: int, random_state: int) -> NDArray[np.float64]:
    """Return the topics of rows with these moments, which have a covariance; all of it is post-processing.

    On columns without a covariance the topics are multiples of the mean, such that the mean row stays what it is. If fewer
    directions than topics rose above the noise, the last topic is the mean, so that the error is not above the mean's; otherwise
    topics are `refined` if the moments have the covariance as it was released. If there are more topics than columns in the
    covariance, some are zero.
    """
    columns, features = moments.columns, len(moments.mean)
    with_mean = n_components > 1 and len(moments.values) < n_components
    size = min(n_components - with_mean, len(columns))
    values, vectors = moments.values[:size], moments.vectors[:size, columns]
    covariance = (vectors.T * values) @ vectors
    scale = 1 / np.sqrt(covariance.diagonal() + moments.noise + TINY)
    leverage = (vectors**2).sum(axis=0)
    surplus = np.maximum(covariance - moments.noise * np.sqrt(np.add.outer(leverage, leverage)), 0.0)
    for positive in (surplus, np.maximum(covariance, 0.0)):  # the second if too little of the first is above the noise
        if positive.any():
            weights, topics = factorise(positive * scale[:, None], size, random_state=random_state)
            if topics.any(axis=1).all():
                break
    if len(moments.covariance) and not with_mean:
        topics = refined(moments.covariance, weights / scale[:, None], topics, moments.covariance_noise)
    T = np.zeros((n_components, features))
    T[:size, columns] = topics
    others = np.delete(np.arange(features), columns)
    shares = nnls(topics.T, moments.mean[columns])[0]
    T[:size, others] = np.outer(shares / max(float(shares @ shares), TINY), moments.mean[others])
    if with_mean:
        T[-1] = moments.mean / max(float(np.linalg.norm(moments.mean)), TINY)
    return T


def refined(covariance: Floats, W: Floats, T: Floats, noise: float) -> Floats:
    """Return topics of a noisy covariance off its diagonal, from factors that were found otherwise; a topic that vanishes stays.

    Parameters
    ----------
    covariance : ndarray of shape (n_words, n_words)
        Symmetric. Its diagonal is not used: it is filled in from the factors.
    W : ndarray of shape (n_words, n_topics)
    T : ndarray of shape (n_topics, n_words)
        Where to start.
    noise : float
        Standard deviation of the noise in an entry off the diagonal.
    """
    filled, right, left = covariance.copy(), T.astype(np.float64), W.T.astype(np.float64)
    for _ in range(REFINING_SWEEPS):
        _thresholded_sweep(filled, left, right, noise)
        _thresholded_sweep(filled, right, left, noise)  # the covariance is symmetric
    return np.where(right.any(axis=1, keepdims=True), right, T)


def _thresholded_sweep(filled: Floats, given: Floats, solved: Floats, noise: float) -> None:
    """Overwrite the rows of `solved`, one after another, by their best values for `given`, less their noise; and the diagonal."""
    np.fill_diagonal(filled, (given * solved).sum(axis=0))
    inner, gram = given @ filled, given @ given.T
    for place, square in enumerate(gram.diagonal()):
        if square > 0:
            rest = inner[place] - gram[place] @ solved + square * solved[place]
            solved[place] = np.maximum(rest - noise * np.sqrt(square), 0.0) / square
        else:
            solved[place] = 0.0
