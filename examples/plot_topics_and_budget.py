"""Topics of documents under a budget: each further fit of the same documents is charged, until the ledger refuses."""

import tempfile
from pathlib import Path

from tacit import NMF, Ledger, PrivateNMF
from tacit.data import TermCounts, make_documents, tfidf
from tacit.errors import BudgetError
from tacit.measure import match_topics, top_words, topic_coherence
from tacit.report.figures import frontier

documents = make_documents(8000, n_topics=5, words_per_document=80)
counts = TermCounts(documents.counts, documents.terms, vocabulary_is_public=True)
X = tfidf(counts, idf="uniform").X
plain = NMF(6, random_state=0).fit(X)

with tempfile.TemporaryDirectory() as folder:
    ledger = Ledger(Path(folder) / "ledger.db")
    ledger.open_account("documents", epsilon=6.0, delta=1e-6)
    epsilons, similarities = [], []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        try:
            model = PrivateNMF(6, epsilon=epsilon, delta=1e-6, ledger=ledger, dataset="documents").fit(X)
        except BudgetError as refusal:
            print(f"epsilon {epsilon:g} was refused: {refusal}")
            break
        epsilons.append(epsilon)
        similarities.append(match_topics(plain.components_, model.components_).mean_similarity)
        coherence = topic_coherence(model.components_, documents.counts).mean()
        left = ledger.remaining("documents").epsilon
        print(f"epsilon {epsilon:g}: c_npmi {coherence:.2f}, similarity {similarities[-1]:.2f}, budget left {left:.2f}")

for words in top_words(model.components_, documents.terms, n=6):
    print(" ".join(words))
figure = frontier(
    epsilons,
    similarities,
    reference=1.0,
    value_name="similarity to the topics without privacy",
    reference_name="the same",
)
figure.savefig(Path("topics_and_budget.png"), bbox_inches="tight", dpi=110)
