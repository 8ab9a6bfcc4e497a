"""The test of the auditor: at least 30 bugs of noise, clipping, sampling, split and accounting in a family of models.

Every bug is planted in the channel of a model whose claim stays as it is. It must be caught by the white-box attack with 8 runs
or by one replay. With the fixed seeds of this file the outcome is always the same. With real noise, noise of
0.8 of its width is missed with a probability below 1e-4: all noise numbers of all runs are compared with a chi-squared bound at
level 0.0125. Bounds, budgets and splits are compared exactly, and samples by a binomial test of some hundred draws.
"""

import pytest
from scipy import stats
from subjects import FULL_BATCH, IMAGES, SAMPLED, TABLES

from tacit import PrivateMoments
from tacit.audit.canaries import candidate_pairs
from tacit.audit.plants import BUGS, mutants
from tacit.audit.replay import replay
from tacit.audit.subject import Subject
from tacit.audit.units import units_of
from tacit.audit.white_box import white_box, worst_pair

NAMED = {model.name: model for model in [*FULL_BATCH, *SAMPLED, *TABLES]}
FAMILIES = {
    "rows": ("nmf", "svd", "nmf by rounds, sampled"),
    "recommenders": ("recommender", "implicit"),
    "coupled": ("coupled, cells", "coupled by gradients"),
    "tables": ("table", "table of persons", "table, replace-one"),
}
OTHERS = ("moments", "pca", "pcr", "rating nmf")
"""Models that share their programs with one of a family: the bugs that every audit plants."""
PAIRS = {}


def attacked(model):
    """Return the subject and its worst pair, found once."""
    if model.name not in PAIRS:
        subject = model.subject()
        PAIRS[model.name] = subject, worst_pair(subject, candidate_pairs(model.estimator, subject.data))
    return PAIRS[model.name]


def caught(model, bug, runs=8):
    subject, pair = attacked(model)
    assert bug.applies(subject.plan)
    planted = subject.with_bug(bug.plant)
    return bool(white_box(planted, pair, runs=runs).violation or replay(planted, [pair], random_units=0).violation)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_thirty_bugs_are_caught_in_a_family(family):
    seen, missed = [], []
    for name in FAMILIES[family]:
        model = NAMED[name]
        for bug in mutants(attacked(model)[0].plan):
            seen.append(bug)
            if not caught(model, bug, runs=8):
                missed.append((name, bug.name))
    assert missed == []
    assert len(seen) >= 30
    assert {bug.kind for bug in seen} >= {"noise", "clipping", "split", "accounting"}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_the_bugs_of_an_audit_are_caught_in_the_other_models(name):
    model = NAMED[name]
    plan = attacked(model)[0].plan
    assert [bug.name for bug in BUGS if bug.applies(plan) and not caught(model, bug)] == []


@pytest.mark.slow
def test_larger_samples_are_caught_in_every_model_that_samples():
    for model in SAMPLED:
        kinds = [bug for bug in mutants(attacked(model)[0].plan) if bug.kind == "sampling"]
        assert len(kinds) == 3
        assert all(caught(model, bug, runs=16) for bug in kinds)


@pytest.mark.slow
def test_a_leak_around_the_channel_is_found(monkeypatch):
    from tacit.channel import Outcome
    from tacit.factor import moments

    program = moments.moments_program

    def leaky(X, **settings):
        outcome = yield from program(X, **settings)
        return Outcome({**outcome.public, "count": float(X.shape[0])})

    monkeypatch.setattr(moments, "moments_program", leaky)
    subject, pair = attacked(FULL_BATCH[0])
    assert "count" in replay(subject, [pair], random_units=0).violation


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svd", "implicit", "rating nmf", "coupled, users", "table"])
def test_false_alarms_stay_rare_in_every_family(name):
    """30 audits of correct code at level 0.2, with the real noise: at most 14 false alarms in all but 4 of 10,000 suites."""
    model = NAMED[name]
    subject, pair = model.subject(seed=None), attacked(model)[1]
    alarms = sum(bool(white_box(subject, pair, runs=4, level=0.2).violation) for _ in range(30))
    assert alarms <= stats.binom.ppf(0.9996, 30, 0.2)


@pytest.mark.slow
def test_false_alarms_on_correct_code_stay_within_the_level():
    """200 audits of correct code at level 0.2, with the real noise: at most 60 false alarms in all but 4 of 10,000 suites."""
    model = PrivateMoments(epsilon=2.0, row_norm=2.0)
    data = IMAGES[:20, 5:8].copy()
    subject = Subject.of(model, units_of(model, data))
    pair = candidate_pairs(model, subject.data)[0]
    alarms = sum(bool(white_box(subject, pair, runs=8, level=0.2).violation) for _ in range(200))
    assert alarms <= stats.binom.ppf(0.9996, 200, 0.2)
