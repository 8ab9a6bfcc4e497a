"""Imported by the server that local parties are forked from: what numba compiled is loaded once, and not in every party."""

import numpy as np
from scipy.sparse import csr_array

from tacit.channel import word_loops
from tacit.factor.nmf.estimator import NMF

# so little that no thread is started, which a fork would not take along
NMF(1, init="random", max_iter=4, tol=0).fit(csr_array(np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]])))

# numba has a loop for arrays that can be written, and another one for those of a message, which cannot
words, message = np.zeros(8, dtype=np.uint64), np.frombuffer(bytes(72), dtype=np.uint64)
word_loops.put_on_grid(np.zeros(8), 1.0, 1.0, words.view(np.int64))
for term in (words, message[:8]):
    word_loops.add_two_words(words, words, term, term)
    word_loops.weighted_sums(words, words, term)
word_loops.take_two_words(words, words, words, words)
lower, upper = np.zeros(8, dtype=np.uint32), np.zeros(8, dtype=np.uint16)
word_loops.take_lowest_bits(words, lower, upper)
word_loops.add_lowest_bits(words, np.frombuffer(bytes(32), dtype=np.uint32), np.frombuffer(bytes(16), dtype=np.uint16))
word_loops.leave_out_zeros(words, np.zeros(1, dtype=np.uint8), np.empty(9, dtype=np.uint64))
word_loops.put_zeros_back(np.frombuffer(bytes(1), dtype=np.uint8), message, words)
