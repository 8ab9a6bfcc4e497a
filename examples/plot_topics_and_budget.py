"""
Topics of documents under a budget
==================================

Each further fit of the same documents is charged to the ledger, until it refuses.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from tacit import NMF, Ledger, PrivateNMF
from tacit.data import TermCounts, make_documents, tfidf
from tacit.errors import BudgetError
from tacit.measure import match_topics, top_words

documents = make_documents(6000, n_topics=5, words_per_document=80)
counts = TermCounts(documents.counts, documents.terms, vocabulary_is_public=True)
X = tfidf(counts, idf="uniform").X
plain = NMF(6, random_state=0).fit(X)

ledger = Ledger(Path(tempfile.mkdtemp()) / "ledger.db")
ledger.open_account("documents", epsilon=6.0, delta=1e-6)
epsilons, similarities, left = [], [], []
for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
    try:
        model = PrivateNMF(6, epsilon=epsilon, delta=1e-6, ledger=ledger, dataset="documents").fit(X)
    except BudgetError as refusal:
        print(f"epsilon {epsilon:g} was refused: {refusal}")
        break
    epsilons.append(epsilon)
    similarities.append(match_topics(plain.components_, model.components_).mean_similarity)
    left.append(ledger.remaining("documents").epsilon)

# %%
# The words of the last topics that the budget allowed:
for words in top_words(model.components_, documents.terms, n=6):
    print(" ".join(words))

figure, (first, second) = plt.subplots(1, 2, figsize=(8.4, 3.4))
first.plot(epsilons, similarities, marker="o")
first.set(xlabel="epsilon of the fit", ylabel="similarity to topics without privacy", ylim=(0, 1.02))
second.step(range(len(left) + 1), [6.0, *left], where="post")
second.set(xlabel="fits so far", ylabel="epsilon left of 6", ylim=(0, 6.3))
figure.tight_layout()
plt.show()
