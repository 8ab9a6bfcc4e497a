"""Whether joining paid off: own held-out records, own model against joint model, and a split that costs no guarantee."""

from __future__ import annotations

import json

import numpy as np
import pytest
from light import Mixer, Scene
from scipy.sparse import csr_array
from threads import Threads

from tacit import NMF, SVD, PrincipalComponentRegression, PrivateMoments, PrivateRecommender
from tacit.errors import InvalidInputError
from tacit.estimators.private import PrivateFit
from tacit.parties.local import local_job
from tacit.parties.models import PartyData
from tacit.parties.payoff import OWN_FITS, HeldOutRecords, Payoff, compare, hold_out, mean_error, measured, own_models

KEY = bytes(range(32))
GENERATOR = np.random.default_rng(5)
TABLE = GENERATOR.gamma(0.6, size=(400, 3)) @ GENERATOR.gamma(0.7, size=(3, 6)) + 0.05 * GENERATOR.random((400, 6))
RATINGS = csr_array(
    np.where(GENERATOR.random((80, 12)) < 0.6, GENERATOR.integers(1, 6, size=(80, 12)), 0).astype(float)
)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("job"))

    def of(model, features=6, **settings):
        return local_job(scene.identities, "test", settings, [f"c{place}" for place in range(features)], model=model)

    return of


@pytest.mark.parametrize("gone", [0, 150, 399])
def test_removing_a_row_moves_no_other_row(job, gone):
    kept, held = hold_out(PartyData(TABLE), job("nmf"), 0.2, KEY)
    fewer, fewer_held = hold_out(PartyData(np.delete(TABLE, gone, axis=0)), job("nmf"), 0.2, KEY)
    assert 40 < len(held.X) < 120
    assert len(kept.X) + len(held.X) == 400
    moved = [len(kept.X) - len(fewer.X), len(held.X) - len(fewer_held.X)]
    assert sorted(moved) == [0, 1]
    whole = {row.tobytes() for row in kept.X}
    assert {row.tobytes() for row in fewer.X} <= whole


@pytest.mark.parametrize("gone", [0, 40, 79])
def test_removing_a_user_moves_no_rating_of_another(job, gone):
    def ratings(part):
        return sorted(row.tobytes() for row in part.toarray())

    kept, held = hold_out(PartyData(RATINGS), job("private-recommender", 12), 0.2, KEY)
    rest = RATINGS[np.delete(np.arange(80), gone)]
    fewer, fewer_held = hold_out(PartyData(rest), job("private-recommender", 12), 0.2, KEY)
    assert (kept.X + held.X - RATINGS).nnz == 0
    assert 50 < held.X.nnz < 200
    for one, other in ((kept.X, fewer.X), (held.X, fewer_held.X)):
        assert ratings(one[np.delete(np.arange(80), gone)]) == ratings(other)


def test_under_replacement_the_number_of_fitted_units_stays(job):
    other = TABLE.copy()
    other[7] = 99.0
    kept, _ = hold_out(PartyData(TABLE), job("moments"), 0.2, KEY, adjacency="replace-one")
    changed, _ = hold_out(PartyData(other), job("moments"), 0.2, KEY, adjacency="replace-one")
    assert len(kept.X) == len(changed.X)
    assert (kept.X != changed.X).any(axis=1).sum() <= 1


def test_units_that_cannot_be_held_out_are_refused(job):
    with pytest.raises(InvalidInputError, match="a guarantee per cell"):
        hold_out(PartyData(RATINGS), job("private-recommender", 12), 0.2, KEY, unit="cell")
    with pytest.raises(InvalidInputError, match="a record to fit"):
        hold_out(PartyData(TABLE[:1]), job("nmf"), 0.999999, KEY)


class Constant:
    """A model that predicts the same for all rows."""

    def __init__(self, value):
        self.mean_ = np.atleast_1d(value)


def test_the_gain_is_that_of_the_errors_and_its_interval_covers():
    """The interval of a known gain, over 400 repeated draws of held-out rows: 95% within three standard errors."""
    generator, covered = np.random.default_rng(1), 0
    truth = 1 - (1 + 0.1**2) / (1 + 0.6**2)
    for _ in range(400):
        found = compare(
            [Constant(0.6)], Constant(0.1), HeldOutRecords(generator.normal(size=(200, 1)), None, is_ratings=False)
        )
        assert found.gain == pytest.approx(1 - found.joint / found.own)
        covered += found.interval[0] <= truth <= found.interval[1]
    assert abs(covered / 400 - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 400)


def test_the_noise_of_own_fits_is_averaged_and_in_the_interval():
    """Own fits that are off by N(0, 1) have an expected error of 2: intervals that count the noise cover that, others do not."""
    generator, truth, covered, alone = np.random.default_rng(2), 1 - 1 / 2, 0, 0
    for _ in range(200):
        held = HeldOutRecords(generator.normal(size=(200, 10)), None, is_ratings=False)
        own = [Constant(value) for value in generator.normal(size=(OWN_FITS, 10))]
        found = compare(own, Constant(0.0), held)
        assert found.own_fits == OWN_FITS
        assert found.own == pytest.approx(np.mean([mean_error([one], held)[0] for one in own]))
        covered += found.interval[0] <= truth <= found.interval[1]
        low, high = compare(own[:1], Constant(0.0), held).interval
        alone += low <= truth <= high
    assert covered / 200 > 0.9
    assert alone / 200 < 0.5


@pytest.mark.parametrize(
    ("name", "estimator", "data"),
    [
        ("nmf", NMF(3, init="random", max_iter=30), PartyData(TABLE)),
        ("svd", SVD(2, hide_singular_values=False), PartyData(csr_array(TABLE))),
        (
            "regression",
            PrincipalComponentRegression(3, hide_singular_values=False),
            PartyData(TABLE, TABLE.sum(axis=1)),
        ),
        ("moments", PrivateMoments(epsilon=5.0, delta=1e-4, row_norm=5.0), PartyData(TABLE)),
        ("private-recommender", PrivateRecommender(2, epsilon=50.0, delta=1e-4), PartyData(RATINGS)),
    ],
)
def test_every_kind_of_model_is_compared_with_itself(job, name, estimator, data):
    """The model of the same records gains nothing; for private ones noise is all that differs."""
    kept, held = hold_out(data, job(name, data.X.shape[1]), 0.25, KEY)
    models = own_models(estimator, kept)
    assert len(models) == (OWN_FITS if isinstance(estimator, PrivateFit) else 1)
    own = models[:1]
    found = compare(own, own[0], held)
    assert found.gain == 0
    assert found.interval == (0, 0)
    assert found.own > 0
    error, (low, high), units = mean_error(own, held)
    assert low < error < high
    assert found.own == pytest.approx(error)
    assert units == found.n_units > 20
    payoff, text = measured(estimator, kept, own[0], held)
    assert isinstance(payoff, Payoff)
    assert "own model" in text
    assert (f"the mean of {OWN_FITS} fits" in text) == isinstance(estimator, PrivateFit)


def test_too_few_units_and_failed_fits_are_said_and_do_not_stop_a_party(job):
    kept, held = hold_out(PartyData(TABLE[:8]), job("nmf"), 0.2, KEY)
    payoff, text = measured(NMF(2, init="random", max_iter=3), kept, own_models(NMF(2, init="random"), kept)[0], held)
    assert payoff is None
    assert "fewer than 5 units" in text
    _, held = hold_out(PartyData(TABLE), job("nmf"), 0.2, KEY)
    payoff, text = measured(NMF(2, init="no such start"), kept, own_models(NMF(2, init="random"), kept)[0], held)
    assert payoff is None
    assert "own model failed (InvalidInputError)" in text


class MeanMixer(Mixer):
    """Ends with the mean of all rows that took part."""

    def fit(self, X, y=None):
        from tacit.channel import Clear, Outcome, Sum, run

        def program():
            total = yield Sum(rows=X.sum(axis=0), count=[float(len(X))])
            return Outcome({"mean": total.rows / total.count[0]})

        outcome = run(program(), Clear())
        self.result_ = self.mean_ = outcome.public["mean"]
        self.guarantee_ = outcome.channel.guarantee
        self.rows_ = len(X)
        return self


@pytest.mark.slow
def test_a_party_with_few_rows_gains_from_the_others_and_nothing_of_that_is_sent(tmp_path):
    # whatever the key of the split: of 600 columns the own mean is worse on the whole, by six standard deviations of chance
    rows = np.random.default_rng(0).normal(size=(900, 600))
    parts = {0: rows[:60], 1: rows[60:450], 2: rows[450:]}
    scene = Threads(tmp_path)
    scene.job = local_job(scene.identities, "test", {}, [f"c{place}" for place in range(600)], model="mixer")
    boxes = scene.all({place: MeanMixer() for place in range(3)}, data=parts, held_out=0.5)
    for place, box in enumerate(boxes):
        part = box.part
        assert part.payoff is not None, part.payoff_text
        assert part.payoff.n_units + part.estimator.rows_ == len(parts[place])
        np.testing.assert_array_equal(part.estimator.mean_, boxes[0].part.estimator.mean_)
    assert boxes[0].part.payoff.gain > 0
    assert "held-out units of this party" in boxes[0].part.payoff_text
    sent = [box.part.traffic.sent for box in boxes]
    without = Threads(tmp_path / "plain")
    without.job = local_job(without.identities, "test", {}, list(scene.job.features), model="mixer")
    plain = without.all({place: MeanMixer() for place in range(3)}, data=parts)
    for mine, theirs in zip(sent, [box.part.traffic.sent for box in plain], strict=True):
        assert abs(mine - theirs) < 200, "no more than without (greetings differ by some digits)"


def test_a_resumed_run_holds_out_the_same_fraction(tmp_path):
    scene = Threads(tmp_path)
    rows = np.random.default_rng(0).normal(size=(300, 4))
    data = dict(enumerate(np.array_split(rows, 3)))
    first = scene.all({place: MeanMixer() for place in range(3)}, data=data, held_out=0.5)
    again = scene.all({place: MeanMixer() for place in range(3)}, data=data, held_out=0.5, resume=True)
    for one, other in zip(first, again, strict=True):
        assert one.part.payoff == other.part.payoff
    refused = scene.all({place: MeanMixer() for place in range(3)}, data=data, held_out=0.1, resume=True)
    assert all("held-out fraction" in str(box.error) for box in refused)


def test_a_dry_join_shows_the_own_error_and_connects_to_nobody(tmp_path):
    import polars as pl
    from typer.testing import CliRunner

    from tacit.cli.main import app

    scene = Scene(tmp_path)
    job = local_job(scene.identities, "test", {"n_components": 2}, list("abcdef"), model="nmf")
    pl.DataFrame({name: TABLE[:, place] for place, name in enumerate("abcdef")}).write_csv(tmp_path / "data.csv")
    scene.identities[0].write(tmp_path / "identity")
    path = job.write(tmp_path / "job.toml")
    words = ["parties", "join", path, "--as", "party-0", "--data", tmp_path / "data.csv"]
    words += ["--identity", tmp_path / "identity", "--output", tmp_path / "out", "--dry", "--json"]
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exception is None, found.exception
    values = json.loads(found.output)
    assert values["interval"][0] < values["own_error"] < values["interval"][1]
    assert values["joined"] is False
    assert not (tmp_path / "out").exists()
