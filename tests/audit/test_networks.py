"""The audit of networks: bugs are caught, members show without noise, and correct code raises no alarm.

The networks have a dozen inputs and take four steps, so that a fit takes some hundredths of a second. The trial of a network
before its fit, which tells nothing about an example, is left out: it would take most of the time.
"""

import numpy as np
import pytest

from tacit import PrivateBayesianClassifier, PrivateBayesianRegressor
from tacit.audit.canaries import candidate_pairs
from tacit.audit.membership import membership
from tacit.audit.plants import mutants
from tacit.audit.replay import replay
from tacit.audit.subject import Subject
from tacit.audit.units import units_of
from tacit.audit.white_box import white_box, worst_pair
from tacit.channel import Bound
from tacit.neural import fallback, gradients, program
from tacit.neural.network_fit import PrivateNetwork

RUNS = 4
"""With noise: 4 runs of 4 steps have some 500 noise numbers. A width of 0.8 is missed with a probability below 1e-3."""
ROWS = np.random.default_rng(0).random((40, 12))
LABELS = (ROWS[:, 0] > 0.5).astype(int)
SETTINGS = {"epsilon": 2.0, "delta": 1e-5, "sampling_rate": 0.5, "epochs": 2, "clip": 0.5, "n_samples": 1}
MODELS = {
    "classes": (PrivateBayesianClassifier((), classes=(0, 1), **SETTINGS), LABELS),
    "numbers": (PrivateBayesianRegressor((3,), target_range=(0, 1), **SETTINGS), ROWS[:, 1]),
}
PAIRS = {}


@pytest.fixture(autouse=True)
def without_trial(monkeypatch):
    monkeypatch.setattr(PrivateNetwork, "_try_out", lambda self, learner, *rest: learner.use_chain())


def attacked(kind):
    """Return the subject and its worst pair, found once."""
    if kind not in PAIRS:
        model, targets = MODELS[kind]
        subject = Subject.of(model, units_of(model, (ROWS, targets)), seed=1)
        PAIRS[kind] = subject, worst_pair(subject, candidate_pairs(model, subject.data)[:4])
    return PAIRS[kind]


def violation(subject, pair):
    found = white_box(subject, pair, runs=RUNS).violation
    return found or replay(subject, [pair], random_units=0).violation


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_correct_code_raises_no_alarm(kind):
    subject, pair = attacked(kind)
    found = white_box(subject, pair, runs=RUNS)
    assert 0 < found.epsilon < subject.claimed[0]
    assert found.violation == replay(subject, [pair], random_units=0).violation == ""


@pytest.mark.slow
def test_members_show_in_a_network_that_learned_coin_flips_by_heart():
    random = np.random.default_rng(3)
    rows, coins = random.random((60, 60)), random.integers(0, 2, 60)
    model = PrivateBayesianClassifier((), classes=(0, 1), **{**SETTINGS, "epsilon": 1.0, "clip": 1.0, "epochs": 20})
    found = membership(Subject.of(model, units_of(model, (rows, coins)), seed=1), fits=12, targets=16)
    assert found.figures["area without noise"] > 0.75
    assert found.figures["found at 1% false alarms, without noise"] > 0.02
    assert found.figures["area under the ROC curve"] < 0.65
    assert not found.violation


@pytest.mark.slow
def test_thirty_bugs_of_networks_are_caught():
    seen, missed = [], []
    for kind in MODELS:
        subject, pair = attacked(kind)
        for bug in mutants(subject.plan):
            seen.append(bug)
            if not violation(subject.with_bug(bug.plant), pair):
                missed.append((kind, bug.name))
    assert missed == []
    assert len(seen) >= 30
    assert {bug.kind for bug in seen} == {"noise", "clipping", "sampling", "split", "accounting"}


def unclipped(squares, clip):
    return np.ones_like(squares)


def clipped_by_the_batch(squares, clip):
    """As in the thesis: the length of the total decides, so one example changes what all others contribute."""
    return np.full_like(squares, clip * len(squares) / np.sqrt(squares).sum())


IN_THE_CODE = {
    "gradients that are not clipped": (gradients, "_clip_factors", unclipped),
    "gradients that are clipped by the batch": (gradients, "_clip_factors", clipped_by_the_batch),
    "counts with half their bound": (fallback.ClassFrequencies, "bound", lambda self, n_outputs: Bound(0.5)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_THE_CODE)
def test_bugs_in_the_code_of_networks_are_caught(name, monkeypatch):
    subject, pair = attacked("classes")
    monkeypatch.setattr(*IN_THE_CODE[name])
    assert violation(subject, pair)


@pytest.mark.slow
def test_a_step_that_takes_all_examples_is_caught(monkeypatch):
    subject, pair = attacked("classes")
    honest = program.training_program

    def everyone(learner, X, y, *rest):
        """Ignore the sample: every example is in every total."""
        run = honest(learner, X, y, *rest)
        ask = next(run)
        while True:
            answer = yield ask
            if isinstance(ask, program.Sample):
                answer = np.ones_like(answer)
            try:
                ask = run.send(answer)
            except StopIteration as stop:
                return stop.value

    monkeypatch.setattr("tacit.neural.network_fit.training_program", everyone)
    assert violation(subject, pair)
