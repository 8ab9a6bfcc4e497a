"""Work on several threads: every piece once, with the same bits on any number of threads."""

import threading

import numpy as np
import pytest
import torch

from tacit.neural.buckets import buckets_of
from tacit.neural.classifier import PrivateBayesianClassifier
from tacit.neural.fallback import MEASURED
from tacit.neural.gradients import Learner
from tacit.neural.network import perceptron
from tacit.neural.program import take_step
from tacit.neural.threads import RANGE, _blas, copy_rows, one_blas_thread, run_pieces, run_ranges

RANDOM = np.random.default_rng(8)
X = RANDOM.normal(size=(1500, 40)).astype(np.float32)
Y = torch.from_numpy(RANDOM.integers(0, 4, len(X)))


@pytest.fixture
def on_threads():
    """Set torch's number of threads, and set it back after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_piece_is_done_once_and_torch_stays_on_its_thread(on_threads, threads, count):
    on_threads(threads)
    done = []
    run_pieces(lambda piece: done.append((piece, torch.get_num_threads())), count)
    assert sorted(done) == [(piece, 1) for piece in range(count)]
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_compiled_pieces_stay_on_their_thread(on_threads, threads):
    on_threads(threads)
    libraries = _blas()
    assert libraries
    before = [library.get_num_threads() for library in libraries]
    seen = []
    try:
        for library in libraries:
            library.set_num_threads(2)

        def look(piece):
            seen.append([library.get_num_threads() for library in libraries])
            if piece == 7:
                raise ZeroDivisionError

        with one_blas_thread():  # within another block, such as that of another fit
            with pytest.raises(ZeroDivisionError):
                run_pieces(look, 8, compiled=True)
            look(0)
        assert len(seen) == 9
        assert all(one == [1] * len(libraries) for one in seen)
        assert [library.get_num_threads() for library in libraries] == [2] * len(libraries)
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_piece_that_fails_is_reported(on_threads, threads):
    on_threads(threads)

    def fail(piece):
        if piece == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_pieces(fail, 10)
    assert torch.get_num_threads() == threads


def test_callers_on_several_threads_keep_their_number(on_threads):
    on_threads(2)
    seen = []

    def call():
        before = torch.get_num_threads()
        for _ in range(50):
            run_pieces(lambda piece: seen.append(torch.get_num_threads()), 4)
        assert torch.get_num_threads() == before

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert seen == [1] * 600
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("size", "width"), [(0, 1), (7, 3), (5 * RANGE + 1, 1), (1000, 784)])
def test_ranges_make_the_whole(on_threads, threads, size, width):
    on_threads(threads)
    done = np.zeros(size)

    def work(place):
        done[place] += 1

    run_ranges(work, size, width)
    assert (done == 1).all()


@pytest.mark.parametrize("shape", [(), (5,), (300, 784), (3, 4, 5)])
def test_copies_are_equal(on_threads, shape):
    on_threads(2)
    source, target = RANDOM.normal(size=shape), np.zeros(shape, np.float32)
    copy_rows(source, target)
    np.testing.assert_array_equal(target, source.astype(np.float32))


@pytest.mark.parametrize("per_layer", [False, True])
def test_totals_have_the_same_bits_on_any_number_of_threads(on_threads, per_layer):
    learner = Learner(perceptron(40, (300, 70), 4, 0), per_layer=per_layer)
    assert learner.use_chain()
    found = []
    for threads in (1, 2, 3, 2):
        on_threads(threads)
        totals, losses = learner.clipped_totals(torch.from_numpy(X), Y, 0.5, buckets_of(X, 10))
        found.append((*totals.values(), losses))
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


def test_gains_have_the_same_bits_on_any_number_of_threads(on_threads):
    learner = Learner(perceptron(40, (300,), 4, 0))
    assert learner.use_chain()
    samples = learner.weights().numpy().astype(np.float32)[None]
    found = []
    for threads in (1, 2, 3):
        on_threads(threads)
        found.append(
            learner.gains(X, Y, samples, PrivateBayesianClassifier._fallback, torch.zeros(4, dtype=torch.float64))
        )
    assert found[0].shape == (len(MEASURED),)
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_a_step_has_the_same_bits_on_any_number_of_threads(on_threads):
    training = PrivateBayesianClassifier(epsilon=1.0, delta=1e-5, momentum=0.5, prior=2.0, clip=0.5)._training()
    theta, speed = (torch.from_numpy(RANDOM.normal(size=3 * RANGE)) for _ in range(2))
    noisy = [RANDOM.normal(size=RANGE), RANDOM.normal(size=2 * RANGE)]
    gradient = np.concatenate(noisy) / (training.sampling_rate * 50) + theta.numpy() / (50 * 4)
    expected = 0.5 * speed.numpy() + gradient
    found = []
    for threads in (1, 2, 3):
        on_threads(threads)
        moved, faster = theta.clone(), speed.clone()
        take_step(moved, faster, noisy, training, 100, 0.1)
        found.append((moved, faster))
    np.testing.assert_allclose(found[0][1].numpy(), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[0][0].numpy(), theta.numpy() - 0.1 * expected, rtol=1e-12, atol=1e-14)
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))
