r"""A private set of words: those used by enough documents that no single document matters.

The words of private documents cannot be listed in advance, so there is no vector of public length to add noise to. Each
document (the unit) names at most :math:`m` of its words. For every word that any document named, discrete Gaussian noise
is added to the number of documents that named it. If the noisy number reaches a threshold, the word is released with it.
Words that no document named are not considered. The noisy number of documents is released as well.

*Claim.* Let :math:`\sigma = z\sqrt{m+1}`, and let the threshold be such that a word that one document named reaches
it with probability at most :math:`\beta/m`. Then the release is as private as a Gaussian release with noise
multiplier :math:`z` composed with a step that is :math:`(-\log(1-\beta), \beta)`-differentially private.

*Proof.* Let D' be D with one document more, U the words named in D and N the at most :math:`m` words that only the
new document named. (i) On U and the number of documents, the counts of D and D' differ by at most 1 in at most
:math:`m+1` places, so by at most :math:`\sqrt{m+1}` in L2: their noisy values are a Gaussian release with multiplier
z, and omitting those below the threshold is post-processing. (ii) On N, D releases nothing. D' releases nothing
either, except with probability at most :math:`m \cdot \beta/m = \beta`, independently of (i), as the noise is
independent. So between D' and D any outcome of (ii) is equally likely except for an event of probability
:math:`\beta`, and between D and D' the only outcome is more likely by a factor of at most :math:`1/(1-\beta)`. (iii)
The output is (i) and (ii) together, a composition. Under replace-one adjacency the counts move by less than
:math:`2\sqrt{m+1}`, which is what the accountant's doubling covers, and there are at most m words on either side that
only one of the two documents names: each side is bounded as in (ii). What a document names depends on that document
alone. :math:`\square`

The tail of the discrete Gaussian is bounded by that of the continuous one a step earlier, :math:`P(Y \ge k) \le
P(N(0, \sigma^2) \ge k - 1)` (Canonne, Kamath & Steinke 2020, proposition 25).

References
----------
A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas. Releasing search queries and clicks privately. WWW 2009.
S. Gopi, P. Gulhane, J. Kulkarni, J. Shen, M. Shokouhi, S. Yekhanin. Differentially private set union. ICML 2020.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import log_ndtr, ndtri_exp

from tacit.errors import InvalidInputError, kind_of
from tacit.privacy.noise import discrete_gaussian
from tacit.privacy.releases import ApproximateRelease, GaussianRelease, Release
from tacit.validation import check_count, check_delta, check_positive

STEPS = 2**12
"""Grid steps per document: finer than whole documents, so that the cost of the grid is negligible (sigma is at least
thousands of steps)."""
MOST_WORDS = 2**40
"""More different words than there can be. It enters the (tiny) cost of the grid in place of the true number, which is
private."""


@dataclass(frozen=True)
class WordSelection:
    """How words are selected. All parameters are public.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the largest L2 norm of what a document contributes.
    threshold_delta : float
        Upper bound on the probability that any word of a single document, which no other document named, is released.
    most_words : int
        Largest number of words that a document may name.

    Examples
    --------
    >>> from tacit.privacy.set_union import WordSelection
    >>> selection = WordSelection(noise_multiplier=2.0, threshold_delta=1e-7, most_words=10)
    >>> round(selection.sigma, 2), round(selection.threshold, 1)
    (6.63, 38.2)
    """

    noise_multiplier: float
    threshold_delta: float
    most_words: int

    def __post_init__(self) -> None:
        check_positive(self.noise_multiplier, "noise_multiplier")
        check_delta(self.threshold_delta)
        check_count(self.most_words, "most_words")

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in documents."""
        return self.noise_multiplier * math.sqrt(self.most_words + 1)

    @property
    def threshold(self) -> float:
        """Smallest noisy number of documents with which a word is released."""
        tail = -float(ndtri_exp(math.log(self.threshold_delta / self.most_words)))  # P(N(0,1) >= tail) = beta/m
        # 1e-12 is for the rounding of this product; + 1 because of the bound on the discrete tail (see the module)
        steps = math.ceil(self.sigma * STEPS * tail * (1 + 1e-12)) + 1
        return 1.0 + steps / STEPS

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases for the accountant: the two parts of the claim."""
        noise = GaussianRelease(
            "words",
            noise_multiplier=self.noise_multiplier,
            lattice_sigma=self.sigma * STEPS,
            dimension=MOST_WORDS,
        )
        beta = self.threshold_delta
        return noise, ApproximateRelease("words of one document", epsilon=-math.log1p(-beta), delta=beta)

    def singleton_probability(self) -> float:
        """Return an upper bound on the probability that a word that only one document named is released."""
        steps = round((self.threshold - 1.0) * STEPS)
        return math.exp(float(log_ndtr(-(steps - 1) / (self.sigma * STEPS))))

    def select(
        self, named: Iterable[frozenset[str]], *, generator: Generator | None = None
    ) -> tuple[dict[str, float], float]:
        """Return the released words, sorted, with their noisy numbers of documents; and the noisy number of all documents.

        `named` holds the words that each document names. `generator` is for tests: predictable noise protects nothing.
        """
        counts, documents = self.counted(named)
        words = sorted(counts)
        noise = discrete_gaussian(self.sigma * STEPS, len(words) + 1, generator=generator)
        values = np.array([*(counts[word] for word in words), documents]) * STEPS + noise
        least = round(self.threshold * STEPS)
        chosen = {word: float(value) / STEPS for word, value in zip(words, values[:-1], strict=True) if value >= least}
        return chosen, float(values[-1]) / STEPS

    def counted(self, named: Iterable[frozenset[str]]) -> tuple[Mapping[str, int], int]:
        """Return the number of documents that named each word, and of all documents; refuse one that names too many."""
        counts: Counter[str] = Counter()
        documents = 0
        for words in named:
            if len(words) > self.most_words:
                raise InvalidInputError(
                    f"at most {self.most_words} words named by a document",
                    kind_of(words),
                    "Select fewer words of each document first.",
                )
            counts.update(words)
            documents += 1
        return counts, documents
