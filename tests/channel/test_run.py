"""Running programs: alone, together, and the ways in which holders may not differ."""

import numpy as np
import pytest
from programs import mean_program

from tacit.channel import Clear, NormedSum, Outcome, Sample, Step, Sum, run, run_alone, run_together
from tacit.channel.run import interpose
from tacit.errors import InvalidInputError, ProtocolError

X = np.random.default_rng(2).normal(size=(24, 3))


def total_program(rows, **public):
    total = yield Sum(rows=rows.sum(axis=0), count=[len(rows)])
    return Outcome(public={"mean": total.rows / total["count"], **public}, private={"own": rows})


def test_one_holder_gets_its_own_sums_back():
    outcome = run(total_program(X), Clear())
    assert np.allclose(outcome.public["mean"], X.mean(axis=0))
    assert outcome.private["own"] is X


@pytest.mark.parametrize("parts", [[24], [1, 23], [5, 9, 10]])
def test_several_holders_get_the_pooled_result(parts):
    edges = np.cumsum(parts)[:-1]
    outcomes = run_together([total_program(rows) for rows in np.split(X, edges)], Clear())
    for outcome in outcomes:
        assert np.allclose(outcome.public["mean"], X.mean(axis=0))


def test_iterated_programs_agree_with_the_pooled_run():
    pooled = run(mean_program(X), Clear()).public["estimate"]
    apart = run_together([mean_program(X[:4]), mean_program(X[4:])], Clear())
    assert np.allclose(apart[0].public["estimate"], pooled, rtol=1e-12)


def test_the_transcript_holds_what_an_observer_saw():
    channel = Clear(keep_values=True)
    run_together([total_program(X[:4]), total_program(X[4:])], channel)
    (entry,) = channel.transcript
    assert entry.shapes == {"rows": (3,), "count": (1,)}
    assert np.allclose(entry.totals["rows"], X.sum(axis=0))
    assert np.allclose(entry.terms[0]["rows"], X[:4].sum(axis=0))  # in the clear, each one's own term is seen
    assert entry.numbers == 4
    assert not channel.guarantee.holds

    quiet = Clear()
    run(total_program(X), quiet)
    assert quiet.transcript.entries[0].totals is None


def test_normed_sums_give_directions_only():
    def program(rows):
        total = yield NormedSum(v=rows, w=rows[0], z=np.zeros((2, 2)))
        return Outcome(dict(total))

    found = run_together([program(X[:12]), program(X[12:])], Clear())[0].public
    pooled = X[:12] + X[12:]
    assert np.allclose(found["v"], pooled / np.linalg.norm(pooled, axis=0))
    assert np.linalg.norm(found["w"]) == pytest.approx(1)
    assert not found["z"].any()


def test_samples_stay_with_their_holder():
    def program(rows):
        mask = yield Sample(len(rows), 0.5)
        return Outcome({}, {"mask": mask})

    first, second = run_together([program(X[:4]), program(X[4:])], Clear())
    assert first.private["mask"].shape == (4,)
    assert second.private["mask"].shape == (20,)
    assert first.private["mask"].dtype == bool


def test_answers_have_attributes_and_names():
    def program():
        total = yield Sum(a=[1.0], b=[2.0])
        assert list(total) == ["a", "b"]
        assert len(total) == 2
        with pytest.raises(AttributeError):
            _ = total.c
        return Outcome({"b": total.b})

    assert run(program(), Clear()).public["b"] == [2.0]


class Closing(Clear):
    closed = 0

    def close(self):
        self.closed += 1


def test_channel_and_programs_are_closed_when_a_program_fails():
    cleaned = []

    def tidy(rows):
        try:
            yield Sum(v=rows)
            yield Sum(v=rows)
        finally:
            cleaned.append(True)

    def failing(rows):
        yield Sum(v=rows)
        raise RuntimeError("disk full")

    channel = Closing()
    with pytest.raises(RuntimeError, match="disk full"):
        run_together([tidy(X), failing(X)], channel)
    assert cleaned == [True]
    assert channel.closed == 1


def asks(ask, rounds=1):
    for _ in range(rounds):
        yield ask
    return Outcome({})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Sum(a=[1.0]), Sum(b=[1.0])),
        (Sum(a=[1.0]), Sum(a=[1.0, 2.0])),
        (Sum(a=[1.0]), NormedSum(a=[1.0])),
        (Sum(a=[1.0], bound=1.0), Sum(a=[1.0], bound=2.0)),
        (Sum(a=[1.0], step=Step(weight=2.0)), Sum(a=[1.0])),
        (Sum(a=[1.0]), Sample(3, 0.5)),
        (Sample(3, 0.5), Sample(3, 0.6)),
    ],
)
def test_holders_that_ask_for_different_things_are_stopped(left, right):
    with pytest.raises(ProtocolError, match="holder 1 asked for"):
        run_together([asks(left), asks(right)], Clear())


def test_holders_that_end_in_different_rounds_are_stopped():
    with pytest.raises(ProtocolError, match="same round"):
        run_together([asks(Sum(a=[1.0])), asks(Sum(a=[1.0]), rounds=2)], Clear())


def test_holders_that_learn_different_public_things_are_stopped():
    with pytest.raises(ProtocolError, match="same public result"):
        run_together([total_program(X, own=1), total_program(X, own=2)], Clear())
    with pytest.raises(ProtocolError, match="same public result"):
        run_together([total_program(X), total_program(X, own=2)], Clear())


def test_programs_must_keep_to_the_protocol():
    with pytest.raises(ProtocolError, match="Sum, NormedSum, Sample or Choose"):
        run(asks(42), Clear())
    with pytest.raises(ProtocolError, match="Outcome"):
        run((x for x in ()), Clear())
    with pytest.raises(InvalidInputError, match="at least one holder"):
        run_together([], Clear())
    with pytest.raises(InvalidInputError, match="at least one array"):
        Sum()
    with pytest.raises(InvalidInputError, match="rate"):
        Sample(3, 1.5)


def test_a_program_alone_gets_its_own_terms_and_no_channel():
    def program():
        total = yield Sum(x=[1.0, 2.0])
        return total.x.tolist(), total.noise["x"]

    def refuse(channel):
        raise AssertionError("a channel was asked for")

    with interpose(refuse):
        assert run_alone(program()) == ([1.0, 2.0], 0.0)
    for ask in (NormedSum(x=np.ones((2, 1))), Sample(3, 0.5)):
        with pytest.raises(ProtocolError, match="expected a Sum"):
            run_alone(one for one in [ask])
