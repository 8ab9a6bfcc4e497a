"""
One topic model of two collections that respects both
=====================================================

How do I merge topic models of two collections so that the topics follow both?

(Asked in `BERTopic 2431 <https://github.com/MaartenGr/BERTopic/issues/2431>`_.) Topics that were learned from one
collection do not fit the other. Two relations that share the factor "word" have one set of topics, which is fitted to both.
Among parties the same fit sends masked sums, and no document leaves its holder (`tacit.parties`).
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import CoupledFactorization, Relation
from tacit.data import make_documents
from tacit.measure import match_topics

documents = make_documents(1000, n_topics=6, words_per_document=80, concentration=0.02, random_state=3)
X = np.asarray(documents.counts.todense(), dtype=float)

# %%
# The first collection has no documents about the last two topics, the second none about the first two.
about = documents.proportions > 0.02
for_first, for_second = ~about[:, 4:].any(axis=1), ~about[:, :2].any(axis=1)
first = for_first & (~for_second | (np.random.default_rng(0).random(len(X)) < 0.5))
second = for_second & ~first
collections = {"first": X[first], "second": X[second]}


def relation(name):
    return Relation(collections[name], "ir,jr->ij", (f"document, {name}", "word"), name=name)


similarities = {}
for title, names in (("the first", ["first"]), ("the second", ["second"]), ("both", ["first", "second"])):
    model = CoupledFactorization({"r": 6}, max_iter=80).fit([relation(name) for name in names])
    match = match_topics(documents.topics, model.factors_["word"].T)
    similarities[title] = match.similarities
    print(f"topics of {title}: mean similarity to the true topics {match.mean_similarity:.3f}")

figure, axis = plt.subplots(figsize=(7.2, 3.6))
for place, (title, values) in enumerate(similarities.items()):
    axis.bar(np.arange(6) + 0.27 * (place - 1), values, 0.25, label=f"topics of {title}")
axis.set_xticks(range(6), documents.topic_names)
axis.set(ylabel="similarity to the true topic", ylim=(0, 1.3))
axis.legend(frameon=False, ncols=3, loc="upper center")
figure.tight_layout()
plt.show()
