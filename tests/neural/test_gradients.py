"""Every engine's clipped totals equal the sums of clipped gradients computed one example at a time."""

import math
from fractions import Fraction

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tacit.neural.gradients import Engine, Learner
from tacit.neural.network import perceptron
from tacit.neural.trial import _is_batch_invariant, choose_engine


def examples(n=7, width=6, classes=3):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(n, width, generator=generator, dtype=torch.float64)
    return rows, torch.randint(classes, (n,), generator=generator)


def stirred(network):
    """The network with random changes of its weights; its last layer starts at zero."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.3 * torch.randn(value.shape, generator=generator, dtype=value.dtype))
    return network


def one_by_one(learner, rows, labels, clip):
    totals = dict.fromkeys(learner.groups, 0.0)
    for row, label in zip(rows, labels, strict=True):
        loss = cross_entropy(learner.network(row[None]), label[None])
        names = list(learner.parameters)
        found = dict(zip(names, torch.autograd.grad(loss, [learner.parameters[name] for name in names]), strict=True))
        for group, members in learner.groups.items():
            flat = torch.cat([found[name].flatten() for name in members])
            totals[group] = totals[group] + flat * min(1.0, clip / max(float(flat.norm()), 1e-300))
    return totals


def convolution():
    return nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3))


class Shared(nn.Module):
    """The same layer twice: its gradient is no outer product."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.outer = nn.Linear(6, 3)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


def all_sorts():
    """Functions that are not zero at zero, where the padding is."""
    return nn.Sequential(
        nn.Linear(6, 17), nn.Sigmoid(), nn.Linear(17, 5), nn.Softplus(), nn.Dropout(0.5), nn.GELU(), nn.Linear(5, 3)
    )


def twice():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(6, 3))


def tied():
    """Two layers with one matrix."""
    network = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 3))
    network[2].weight = network[0].weight
    return network


def tied_chain():
    network = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 3))
    network[2].weight = network[0].weight
    return network


class Doubled(nn.Linear):
    """Has the attributes of a fully connected layer, but computes something else."""

    def forward(self, x):
        return 2 * super().forward(x)


NETWORKS = {
    "linear": lambda: perceptron(6, (), 3, 0),
    "two hidden layers": lambda: perceptron(6, (5, 4), 3, 0),
    "no bias": lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 3)),
    "convolution": convolution,
    "shared layer": Shared,
    "a bare layer": lambda: nn.Linear(6, 3),
    "all sorts": all_sorts,
    "the same layer in two places": twice,
    "layer norm": lambda: nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 3)),
    "one matrix in two layers": tied,
    "a chain with one matrix in two layers": tied_chain,
    "a layer of its own kind": lambda: nn.Sequential(Doubled(6, 5), nn.Tanh(), nn.Linear(5, 3)),
}


CHAINS = {"linear", "two hidden layers", "no bias", "a bare layer", "all sorts"}


def learner_with(network, engine, dtype=torch.float64, **settings):
    learner = Learner(network, **settings)
    if engine is Engine.CHAIN:
        assert learner.use_chain(dtype)
    else:
        learner.use_formed_gradients(engine)
    return learner


def engines(*names):
    """Every network with every engine that can be used for it."""
    return [
        pytest.param(name, engine, id=f"{name}, {engine.name}")
        for name in names or NETWORKS
        for engine in Engine
        if engine is not Engine.CHAIN or name in CHAINS
    ]


@pytest.mark.parametrize(("name", "engine"), engines())
@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("clip", [0.2, 100.0])
def test_totals_are_those_of_single_examples(name, engine, per_layer, clip):
    learner = learner_with(stirred(NETWORKS[name]().double().eval()), engine, per_layer=per_layer)
    rows, labels = examples()
    totals, losses = learner.clipped_totals(rows, labels, clip)
    expected = one_by_one(learner, rows, labels, clip)
    assert set(totals) == set(expected)
    for group, total in totals.items():
        assert torch.allclose(total, expected[group], rtol=1e-10, atol=1e-13)
    assert torch.allclose(losses, cross_entropy(learner.network(rows), labels, reduction="none"))


@pytest.mark.parametrize("name", sorted(CHAINS))
def test_totals_in_float32_differ_by_its_rounding(name):
    learner = learner_with(stirred(NETWORKS[name]().double().eval()), Engine.CHAIN, torch.float32)
    rows, labels = examples(300)
    totals, _ = learner.clipped_totals(rows, labels, 0.2)
    expected = one_by_one(learner, rows, labels, 0.2)["gradient"]
    assert totals["gradient"].dtype == torch.float64
    assert 0 < float((totals["gradient"] - expected).norm()) < 1e-5 * float(expected.norm())


@pytest.mark.slow
def test_which_engine_is_chosen():
    rows, labels = examples(128)
    chosen = {}
    for name, build in NETWORKS.items():
        learner = Learner(build().double().eval())
        choose_engine(learner, rows, labels, 1.0)
        chosen[name] = learner.engine
    assert {name for name, engine in chosen.items() if engine is Engine.CHAIN} == CHAINS
    assert {engine for name, engine in chosen.items() if name not in CHAINS} == {Engine.VMAP}


def exact_norm(vector):
    """The norm as an exact square, for comparisons without rounding."""
    return sum(Fraction(number) ** 2 for number in vector.tolist())


MAGNITUDES = [0.0, 5e-324, 1e-310, 1e-30, 0.5, 1.0, 1 + 2**-30, 3.0, 1e30, 1e150]


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("magnitude", MAGNITUDES)
@pytest.mark.parametrize("clip", [1.0, 0.1, 1e-3])
def test_the_norm_of_a_contribution_keeps_the_bound_at_any_magnitude(engine, magnitude, clip):
    class Scaled(nn.Linear):
        """Its gradient is `magnitude` times that of a linear layer, by a fixed factor that takes no part in the scores."""

        def forward(self, x):
            scores = super().forward(x)
            return scores.detach() + magnitude * (scores - scores.detach())

    network = perceptron(6, (5,), 3, 0) if engine is Engine.CHAIN else Scaled(6, 3).double()
    learner = learner_with(stirred(network.eval()), engine, torch.float32)
    rows, labels = examples(1)
    if engine is Engine.CHAIN:
        rows = rows * magnitude  # the first layer's gradient grows with its input
    totals, _ = learner.clipped_totals(rows, labels, clip)
    assert bool(torch.isfinite(totals["gradient"]).all())
    assert exact_norm(totals["gradient"]) <= (Fraction(clip) * (1 + Fraction(2) ** -30)) ** 2


@pytest.mark.parametrize("engine", Engine)
def test_a_gradient_of_exactly_the_clipping_norm_is_left_alone(engine):
    learner = learner_with(stirred(perceptron(6, (5,), 3, 0)), engine)
    rows, labels = examples(1)
    whole, _ = learner.clipped_totals(rows, labels, math.inf)
    norm = float(whole["gradient"].norm())
    for clip in (norm, math.nextafter(norm, 0), math.nextafter(norm, math.inf)):
        clipped, _ = learner.clipped_totals(rows, labels, clip)
        assert torch.allclose(clipped["gradient"], whole["gradient"], rtol=1e-14)
        assert exact_norm(clipped["gradient"]) <= (Fraction(clip) * (1 + Fraction(2) ** -30)) ** 2


@pytest.mark.parametrize("engine", Engine)
def test_one_example_moves_a_total_by_no_more_than_the_clipping_norm(engine):
    learner = learner_with(stirred(perceptron(6, (5,), 3, 0)), engine, torch.float32)
    rows, labels = examples(140)
    rows[70] *= 1e6
    whole, _ = learner.clipped_totals(rows, labels, 0.5)
    others = torch.arange(140) != 70
    without, _ = learner.clipped_totals(rows[others], labels[others], 0.5)
    # the difference is exact; 140 contributions were rounded when they were added
    difference = [
        Fraction(a) - Fraction(b) for a, b in zip(*(t["gradient"].tolist() for t in (whole, without)), strict=True)
    ]
    reserve = 1 + Fraction(2) ** -30 + 2 * 140**2 * Fraction(2) ** -53
    assert Fraction(1, 16) < sum(number**2 for number in difference) <= (Fraction(1, 2) * reserve) ** 2


class Root(nn.Module):
    """The gradient of a row with an entry of zero is not finite."""

    def __init__(self):
        super().__init__()
        self.scale, self.layer = nn.Parameter(torch.ones(6)), nn.Linear(6, 3)

    def forward(self, x):
        return self.layer(torch.sqrt((self.scale * x).abs()))


class Raises(nn.Module):
    """Fails for some rows, as looking up a word that is not in a table would."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("table", torch.ones(4))

    def forward(self, x):
        places = torch.where(x[:, :1] == 0, 9, 1)
        return self.layer(x) * torch.gather(self.table.expand(len(x), -1), 1, places)


def overflowing():
    """Finite weights whose product overflows float32."""
    network = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    with torch.no_grad():
        network[0].weight[:, 1:] = 0.1
        network[0].weight[:, 0] = 1e38
        network[0].bias[:] = 1.0
    return network


@pytest.mark.parametrize(
    ("build", "engine"),
    [
        (Root, Engine.VMAP),
        (Root, Engine.ONE_BY_ONE),
        (Raises, Engine.VMAP),
        (Raises, Engine.ONE_BY_ONE),
        (overflowing, Engine.CHAIN),
    ],
)
@pytest.mark.parametrize("place", [0, 3, 130, 139])
@pytest.mark.parametrize("per_layer", [False, True])
def test_an_example_without_a_finite_gradient_contributes_exactly_zero(build, engine, place, per_layer):
    learner = learner_with(build().double().eval(), engine, torch.float32, per_layer=per_layer)
    rows, labels = examples(140)
    rows = rows.abs() + 0.01
    if build is overflowing:
        rows[:, 0], rows[place] = 0.0, 100.0
    else:
        rows[place, 0] = 0.0
    totals, losses = learner.clipped_totals(rows, labels, 0.5)
    assert losses.isnan().nonzero().flatten().tolist() == [place]
    only, _ = learner.clipped_totals(rows[place : place + 1], labels[place : place + 1], 0.5)
    others = torch.arange(140) != place
    without, _ = learner.clipped_totals(rows[others], labels[others], 0.5)
    for group, total in totals.items():
        assert float(only[group].abs().max()) == 0.0
        assert bool(torch.isfinite(total).all())
        assert float(total.norm()) > 0.1
        # equal up to the rounding of 140 additions in another order
        assert torch.allclose(total, without[group], rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), engines("two hidden layers", "convolution", "layer norm", "shared layer"))
@pytest.mark.parametrize("per_layer", [False, True])
def test_a_contribution_has_the_same_bits_in_any_batch(name, engine, per_layer):
    """Alone, first, last, among other rows and in another block: what one example adds does not depend on the others."""
    learner = learner_with(stirred(NETWORKS[name]().double().eval()), engine, torch.float32, per_layer=per_layer)
    rows, labels = examples(150)
    if engine is Engine.VMAP and not _is_batch_invariant(learner, rows, labels):
        pytest.skip("BLAS rounds rows by their place here; the trial before a fit sees that, and uses plain autograd")
    # all others get a gradient of zero: a loss that does not depend on the weights
    learner.loss = lambda scores, given: torch.where(
        given < 0, 0.0, cross_entropy(scores, given.clamp(min=0), reduction="none")
    )
    check_that_one_contributes_the_same(learner, rows, labels)


@pytest.mark.slow
@pytest.mark.parametrize("per_layer", [False, True])
def test_a_contribution_without_autograd_has_the_same_bits_in_any_batch(per_layer):
    """As above, with the compiled loss: examples without a class have no finite gradient, and contribute zero."""
    module = stirred(NETWORKS["two hidden layers"]().double().eval())
    learner = learner_with(module, Engine.CHAIN, torch.float32, per_layer=per_layer)
    check_that_one_contributes_the_same(learner, *examples(150))


def check_that_one_contributes_the_same(learner, rows, labels):
    """Compare what the first example adds alone with what it adds at several places among others of class -1."""
    alone, _ = learner.clipped_totals(rows[:1], labels[:1], 0.2)
    assert all(float(total.norm()) > 0.01 for total in alone.values())
    for place in (0, 1, 64, 127, 128, 149):
        batch, quiet = rows.roll(place, 0), torch.full((150,), -1)
        quiet[place] = labels[0]
        totals, _ = learner.clipped_totals(batch, quiet, 0.2)
        for group, total in totals.items():
            assert torch.equal(total, alone[group])


@pytest.mark.parametrize("engine", Engine)
def test_frozen_parameters_stay_out(engine):
    network = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    network[0].requires_grad_(False)
    learner = learner_with(network, engine)
    rows, labels = examples()
    totals, _ = learner.clipped_totals(rows, labels, 1.0)
    assert totals["gradient"].shape == (learner.size,) == (18,)
    expected = one_by_one(learner, rows, labels, 1.0)
    assert torch.allclose(totals["gradient"], expected["gradient"], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("name", "engine"), engines())
def test_new_weights_are_used_after_gradients_were_taken(name, engine):
    learner = learner_with(stirred(NETWORKS[name]().double().eval()), engine)
    rows, labels = examples()
    learner.clipped_totals(rows, labels, 1.0)
    before = learner.scores(rows)
    learner.set_weights(1.5 * learner.weights())
    assert not torch.allclose(learner.scores(rows), before)
    _, losses = learner.clipped_totals(rows, labels, 1.0)
    assert torch.allclose(losses, cross_entropy(learner.scores(rows), labels, reduction="none"), rtol=1e-10)


@pytest.mark.parametrize(("name", "engine"), engines())
def test_an_empty_sample_has_a_total_of_zero(name, engine):
    learner = learner_with(NETWORKS[name]().double().eval(), engine)
    totals, losses = learner.clipped_totals(*examples(0), 1.0)
    assert float(totals["gradient"].abs().sum()) == 0.0
    assert totals["gradient"].shape == (learner.size,)
    assert len(losses) == 0


def test_scores_leave_the_rows_as_they_are():
    class Doubles(nn.Linear):
        def forward(self, x):
            return super().forward(x.mul_(2))

    learner = Learner(Doubles(6, 3).double())
    rows, _ = examples()
    before = rows.clone()
    assert torch.equal(learner.scores(rows), learner.scores(rows))
    assert torch.equal(rows, before)


def test_weights_go_in_as_they_came_out():
    learner = Learner(perceptron(6, (5, 4), 3, 0), per_layer=True)
    vector = torch.arange(learner.size, dtype=torch.float64)
    learner.set_weights(vector)
    assert torch.equal(learner.weights(), vector)


def test_the_totals_of_opacus_are_the_same():
    opacus = pytest.importorskip("opacus", reason="opacus is not installed")
    learner = learner_with(stirred(perceptron(6, (5,), 3, 0)), Engine.CHAIN)
    rows, labels = examples()
    wrapped = opacus.GradSampleModule(stirred(perceptron(6, (5,), 3, 0)), loss_reduction="sum")
    cross_entropy(wrapped(rows), labels, reduction="sum").backward()
    single = torch.cat([value.grad_sample.flatten(1) for value in wrapped.parameters()], dim=1)
    expected = (single * (0.2 / single.norm(dim=1)).clamp(max=1.0)[:, None]).sum(dim=0)
    totals, _ = learner.clipped_totals(rows, labels, 0.2)
    assert torch.allclose(totals["gradient"], expected, rtol=1e-8, atol=1e-12)
