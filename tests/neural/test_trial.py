"""Unsuitable modules are detected before any charge; suitable ones are trained with the right gradients."""

import copy
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout, relu_

import tacit
from tacit import Ledger
from tacit.errors import InvalidInputError
from tacit.neural import PrivateBayesianClassifier, PrivateBayesianRegressor
from tacit.neural import trial as trials
from tacit.neural.gradients import Engine, Learner
from tacit.neural.network import prepared
from tacit.neural.trial import check_module, choose_engine

RANDOM = np.random.default_rng(0)
X = RANDOM.random((120, 6))
Y = (X[:, 0] > 0.5).astype(int)
QUICK = {"epsilon": 2.0, "delta": 1e-6, "epochs": 1.0, "sampling_rate": 0.5, "classes": (0, 1)}


class Layered(nn.Module):
    """A linear layer, preceded by an operation on the rows."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def change(self, x):
        return x

    def forward(self, x):
        return self.layer(self.change(x))


class MeanInForward(Layered):
    def change(self, x):
        return x - x.mean(dim=0)


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0, keepdim=True)


class MeanInLargeBatches(Layered):
    least = 8

    def change(self, x):
        return x - (x.mean(dim=0) if len(x) > self.least else 0)


class MeanInVeryLargeBatches(MeanInLargeBatches):
    least = 3000


class NormalisedWhileTraining(Layered):
    def change(self, x):
        return (x - x.mean(dim=0)) / (x.std(dim=0) + 1e-5) if self.training else x


class StatisticsWhileTraining(Layered):
    """Rows do not mix within a call, but the module keeps values of them that change the next call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def change(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(dim=0)
        return x


class RunningMean(Layered):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def change(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(dim=0)
        return x


class RunningMeanInPlace(RunningMean):
    def change(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(dim=0))
        return x


class KeepsRows(Layered):
    """It keeps something other than a tensor, and uses it much later."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def change(self, x):
        self.seen.append(float(x.detach().sum()))
        return x if len(self.seen) < 10_000 else x + self.seen[0]


class KeepsRowsElsewhere(Layered):
    """No attribute of the module changes."""

    memory: ClassVar = [0.0]

    def change(self, x):
        x = x + self.memory[0]
        self.memory[0] = float(x.detach().mean())
        return x


class Noisy(Layered):
    def change(self, x):
        return x + 0.1 * torch.randn_like(x)


class Squeezed(Layered):
    """A batch of one loses its first dimension."""

    def forward(self, x):
        return super().forward(x).squeeze()


class NotDifferentiable(Layered):
    def forward(self, x):
        return super().forward(x).detach()


class OverwritesWhatIsNeeded(Layered):
    """Autograd itself refuses this."""

    def forward(self, x):
        scores = super().forward(x).exp()
        result = scores * 2
        scores.add_(1)
        return result


class NeverFinite(Layered):
    def change(self, x):
        return x / 0.0


class Fails(Layered):
    def change(self, x):
        raise KeyError("nothing that torch would raise")


REFUSED = {
    "batch norm": (lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), "BatchNorm1d at '1'"),
    "nested batch norm": (
        lambda: nn.Sequential(nn.Sequential(nn.Linear(6, 4), nn.SyncBatchNorm(4)), nn.Linear(4, 2)),
        "SyncBatchNorm at '0.1'",
    ),
    "instance norm with statistics": (
        lambda: nn.Sequential(
            nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten(), nn.Linear(6, 2)
        ),
        "InstanceNorm1d at '1'",
    ),
    "mean in forward": (MeanInForward, "got MeanInForward, which mixes the examples"),
    "mean in an inner layer": (lambda: nn.Sequential(nn.Linear(6, 4), Centred(), nn.Linear(4, 2)), "Centred at '1'"),
    "mean in batches of more than 8": (MeanInLargeBatches, "mixes the examples|each row by itself"),
    "mean in batches of more than 3000": (MeanInVeryLargeBatches, "other outputs where 4096 rows pass together"),
    "softmax over the batch": (lambda: nn.Sequential(nn.Linear(6, 2), nn.Softmax(dim=0)), "Softmax at '1'"),
    "recurrent over the batch": (
        lambda: nn.Sequential(nn.Linear(6, 3), FirstOf(nn.GRU(3, 2))),
        "mixes the examples|each row by itself",
    ),
    "own batch norm, in training mode": (NormalisedWhileTraining, "mixes the examples of a batch in training mode"),
    "own statistics, in training mode": (StatisticsWhileTraining, "'mean' changes when rows pass"),
    "running mean": (RunningMean, "'mean' changes when rows pass"),
    "running mean in place": (RunningMeanInPlace, "'mean' changes when rows pass"),
    "keeps rows": (KeepsRows, "'seen' changes when rows pass"),
    "keeps rows elsewhere": (KeepsRowsElsewhere, "same output for the same rows"),
    "noise": (Noisy, "same output for the same rows"),
    "squeezed": (Squeezed, "other outputs where 1 rows|treats each row by itself"),
    "not differentiable": (NotDifferentiable, "differentiated by autograd"),
    "overwrites what is needed": (OverwritesWhatIsNeeded, "differentiated by autograd.*inplace"),
    "never finite": (NeverFinite, "finite gradients"),
    "fails": (Fails, "applied to rows of 6 numbers; got KeyError"),
}


class FirstOf(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.inner = layer

    def forward(self, x):
        return self.inner(x)[0]


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("rows", epsilon=5.0, delta=1e-5)
    return ledger


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_charged(name, ledger):
    build, message = REFUSED[name]
    model = PrivateBayesianClassifier(module=build(), ledger=ledger, dataset="rows", **QUICK)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X, Y)
    assert ledger.remaining("rows").spent == 0
    assert ledger.history("rows") == []


class Recurrent(nn.Module):
    def __init__(self, kind, **settings):
        super().__init__()
        self.inner = kind(2, 4, batch_first=True, **settings)
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(self.inner(x.reshape(len(x), 3, 2))[0][:, -1])


class Item(Layered):
    def change(self, x):
        return x if x.sum().item() > -1e9 else -x


class Branches(Layered):
    """Control flow that depends on the row: right, one row at a time."""

    def forward(self, x):
        return torch.cat([super(Branches, self).forward(row[None] * (2 if row[0] > 0 else 1)) for row in x])


class InPlaceFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(relu_(self.first(x)))


class OverwritesItsInput(Layered):
    def change(self, x):
        return x.mul_(2).sub_(0.1)


class DropsOut(Layered):
    """The usual way to write dropout: off in evaluation mode."""

    def change(self, x):
        return dropout(x, 0.5, self.training)


class SinglePrecision(nn.Module):
    """Computes in float32, whatever it is given."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(2, 6))

    def forward(self, x):
        return x.float() @ self.scale.float().T


class SequenceFirst(nn.Module):
    """Its inner outputs have another axis first, of the same length as the number of rows in the trial."""

    def __init__(self):
        super().__init__()
        self.inner = nn.GRU(6, 4)
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(self.inner(x.expand(trials.SINGLE, -1, -1))[0][-1])


class Unused(Layered):
    def __init__(self):
        super().__init__()
        self.other = nn.Linear(3, 3)


def in_place(last):
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(inplace=last), nn.Linear(8, 2))


def hooked():
    """A chain by its types, whose first layer has a hook that computes something else."""
    network = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))
    network[0].register_forward_hook(lambda layer, given, output: output * 3)
    return network


ACCEPTED = {
    "in place": lambda: in_place(True),
    "in place, first": lambda: nn.Sequential(nn.ELU(inplace=True), nn.Linear(6, 2)),
    "in place after the first layer": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 2)),
    "in place by a function": InPlaceFunction,
    "overwrites its input": OverwritesItsInput,
    "GRU": lambda: Recurrent(nn.GRU),
    "LSTM": lambda: Recurrent(nn.LSTM),
    "LSTM with dropout": lambda: Recurrent(nn.LSTM, num_layers=2, dropout=0.5),
    "RNN": lambda: Recurrent(nn.RNN),
    "sequence first": SequenceFirst,
    "item": Item,
    "branches": Branches,
    "dropout": DropsOut,
    "dropout layer": lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 2)),
    "float32 inside": SinglePrecision,
    "unused parameters": Unused,
    "hook": hooked,
    "weight norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 2))),
    "attention": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2)), nn.TransformerEncoderLayer(2, 1, 4, batch_first=True), nn.Flatten(), nn.Linear(6, 2)
    ),
    "lazy": lambda: nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(2)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", ACCEPTED)
def test_gradients_of_what_is_accepted_are_those_of_plain_autograd(name):
    network = prepared(ACCEPTED[name](), 6, 2)
    untouched = copy.deepcopy(network)
    learner = Learner(network)
    rows = torch.rand(128, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) * 2 - 1
    labels = torch.arange(128) % 2
    check_module(learner, rows)
    choose_engine(learner, rows, labels, 0.3)
    # another set of weights, as after some steps
    learner.set_weights(learner.weights() * 1.3 + 0.01)
    nn.utils.vector_to_parameters(
        nn.utils.parameters_to_vector(untouched.parameters()) * 1.3 + 0.01, untouched.parameters()
    )
    given = rows.clone()
    totals, losses = learner.clipped_totals(given, labels, 0.3)
    expected, limit = torch.zeros(learner.size, dtype=torch.float64), 1e-4 if name == "float32 inside" else 1e-5
    for row, label, loss in zip(rows, labels, losses, strict=True):
        value = cross_entropy(untouched(row[None].clone()).double(), label[None])
        parts = torch.autograd.grad(value, list(untouched.parameters()), allow_unused=True)
        gradient = torch.cat(
            [
                torch.zeros(one.numel()) if part is None else part.double().flatten()
                for one, part in zip(untouched.parameters(), parts, strict=True)
            ]
        )
        expected += gradient * min(1.0, 0.3 / float(gradient.norm()))
        assert float(loss) == pytest.approx(float(value.detach()), rel=limit)
    assert float((totals["gradient"] - expected).norm()) <= limit * float(expected.norm())
    assert torch.equal(given, rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", ["in place", "in place by a function", "GRU", "LSTM", "item", "branches", "dropout"])
def test_what_is_accepted_is_fitted_charged_saved_and_used(name, ledger, tmp_path):
    module = ACCEPTED[name]()
    model = PrivateBayesianClassifier(module=module, ledger=ledger, dataset="rows", **QUICK).fit(X, Y)
    assert 1.5 < ledger.remaining("rows").spent <= 2
    assert model.dropped_fraction_ == 0
    model.save(tmp_path / "network.tacit")
    loaded = tacit.load(tmp_path / "network.tacit").set_params(module=module)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    # alone or together, a row's probabilities are the same
    assert np.allclose(model.predict_proba(X[:1]), model.predict_proba(X)[:1], rtol=1e-9)


def engine_of(module):
    learner = Learner(prepared(module, 6, 2))
    rows = torch.rand(128, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) * 2 - 1
    choose_engine(learner, rows, torch.arange(128) % 2, 1.0)
    return learner.engine


@pytest.mark.slow
def test_the_fast_engines_are_used_where_they_are_right():
    assert engine_of(in_place(True)) is Engine.CHAIN
    assert engine_of(InPlaceFunction()) is Engine.VMAP
    assert engine_of(hooked()) is Engine.VMAP
    assert engine_of(Recurrent(nn.GRU)) is Engine.ONE_BY_ONE
    assert engine_of(Branches()) is Engine.ONE_BY_ONE


@pytest.mark.parametrize(("activation", "passes"), [(nn.Tanh, "_quick_block"), (nn.GELU, "_block")])
def test_a_chain_that_is_wrong_is_not_used(monkeypatch, activation, passes):
    from tacit.neural.chain import Chain

    honest = getattr(Chain, passes)

    def wrong(self, inputs, slopes, *rest):
        honest(self, inputs, slopes, *rest)
        slopes[0][:, 0] *= 1.001

    network = nn.Sequential(nn.Linear(6, 4), activation(), nn.Linear(4, 2))
    assert engine_of(network) is Engine.CHAIN
    monkeypatch.setattr(Chain, passes, wrong)
    assert engine_of(network) is Engine.VMAP


def test_gradients_that_depend_on_the_batch_are_taken_one_by_one(monkeypatch):
    honest = Learner.vmapped

    def leaning(self, rows, targets):
        gradients = honest(self, rows, targets)
        gradients.flat["gradient"][0] *= 1 + 2**-40 * len(rows)
        return gradients

    network = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    assert engine_of(network) is Engine.VMAP
    monkeypatch.setattr(Learner, "vmapped", leaning)
    assert engine_of(network) is Engine.ONE_BY_ONE


def test_one_example_that_is_clipped_wrongly_is_enough(monkeypatch):
    """A fast path may be right for nearly all examples: gradients are compared one by one, not in total."""
    honest = Learner.vmapped

    def wrong_for_small_rows(self, rows, targets):
        gradients = honest(self, rows, targets)
        gradients.flat["gradient"][rows.abs().sum(dim=1) < 1e-3] *= 1.01
        return gradients

    network = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    learner = Learner(prepared(network, 6, 2))
    rows = torch.rand(128, 6, dtype=torch.float64) * 2 - 1
    rows[3] *= 1e-5
    monkeypatch.setattr(Learner, "vmapped", wrong_for_small_rows)
    choose_engine(learner, rows, torch.arange(128) % 2, 1.0)
    assert learner.engine is Engine.ONE_BY_ONE


def test_the_trial_sees_random_rows_within_the_range_and_no_private_row(monkeypatch):
    seen = []

    class Watches(nn.Linear):
        def forward(self, x):
            x.sum().item()  # torch.func cannot do this: rows pass one by one
            seen.append(x.detach().clone())
            return super().forward(x)

    def stop(*_):
        raise InterruptedError

    monkeypatch.setattr("tacit.neural.network_fit.PrivateNetwork._run", stop)
    private = 100 + np.random.default_rng(77).random((120, 6))
    with pytest.raises(InterruptedError):
        PrivateBayesianClassifier(module=Watches(6, 2), feature_range=(100, 101), **QUICK).fit(private, Y)
    rows = torch.cat(seen)
    assert float(rows.min()) == -1.0
    assert float(rows.max()) == 1.0
    fed = torch.from_numpy((2 * (private - 100) - 1).astype(np.float32)).double()
    assert not (rows[:, None] == fed[None]).all(dim=2).any()


def test_the_trial_leaves_torch_s_random_numbers_and_the_weights_alone():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    learner = Learner(prepared(Recurrent(nn.GRU), 6, 2))
    torch.manual_seed(3)
    before = learner.weights()
    rows = torch.rand(128, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    check_module(learner, rows)
    choose_engine(learner, rows, torch.arange(128) % 2, 1.0)
    assert torch.equal(learner.weights(), before)
    assert torch.equal(torch.rand(3), expected)


class RootModule(nn.Module):
    """Of a row with an entry of zero the gradient is not finite."""

    def __init__(self, outputs=2):
        super().__init__()
        self.scale, self.layer = nn.Parameter(torch.ones(6)), nn.Linear(6, outputs)

    def forward(self, x):
        return self.layer(torch.sqrt((self.scale * (x + 1)).abs()))


class FailsForMany(Layered):
    """A lookup that fails for rows that the trial draws, but not for the few that it differentiates first."""

    def change(self, x):
        places = torch.where(x.sum(dim=1, keepdim=True) > 1.5, 9, 1)
        return x * torch.gather(torch.ones(len(x), 4, dtype=x.dtype), 1, places)


class FailsForSome(Layered):
    """Fails for rows so rare that the trial does not draw one."""

    def change(self, x):
        if bool(((x > 0.4) & (x < 0.5)).all()):
            raise ValueError("a private row")
        return x


@pytest.mark.parametrize(
    ("build", "bad"), [(RootModule, np.zeros(6)), (FailsForSome, np.full(6, 0.725))], ids=["not finite", "fails"]
)
def test_a_row_without_a_gradient_does_not_stop_a_fit(build, bad, ledger):
    rows, labels = np.vstack([X, bad]), np.append(Y, 1)
    model = PrivateBayesianClassifier(module=build(), ledger=ledger, dataset="rows", **QUICK).fit(rows, labels)
    assert 1.5 < ledger.remaining("rows").spent <= 2
    assert np.isfinite(model.weights_).all()
    assert 0 <= model.dropped_fraction_ < 0.05


def test_a_module_that_fails_for_some_random_rows_is_trained_one_by_one():
    learner = Learner(FailsForMany().double().eval())
    rows = torch.rand(128, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) * 2 - 1
    rows[: trials.SINGLE] = -rows[: trials.SINGLE].abs()
    fails = rows.sum(dim=1) > 1.5
    assert 5 < int(fails.sum()) < 60
    choose_engine(learner, rows, torch.arange(128) % 2, 1.0)
    assert learner.engine is Engine.ONE_BY_ONE
    _, losses = learner.clipped_totals(rows, torch.arange(128) % 2, 1.0)
    assert torch.equal(losses.isnan(), fails)


def test_a_regressor_is_tried_too(ledger):
    settings = {key: value for key, value in QUICK.items() if key != "classes"}
    model = PrivateBayesianRegressor(module=MeanInForward(), ledger=ledger, dataset="rows", **settings)
    with pytest.raises(InvalidInputError, match="mixes the examples"):
        model.fit(X, X[:, :2])
    assert ledger.remaining("rows").spent == 0
    model = PrivateBayesianRegressor(module=Recurrent(nn.GRU), **settings).fit(X, X[:, :2])
    assert model.predict(X).shape == (120, 2)


class HoldsAResult(nn.Module):
    """A module with a tensor that is the result of a computation; torch does not let such tensors be copied."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)
        self.doubled = self.layer.weight * 2

    def forward(self, x):
        return self.layer(x)


def test_a_module_that_cannot_be_copied_is_refused_before_anything_is_charged(ledger):
    with pytest.raises(RuntimeError):
        copy.deepcopy(HoldsAResult())
    model = PrivateBayesianClassifier(module=HoldsAResult(), ledger=ledger, dataset="rows", **QUICK)
    with pytest.raises(InvalidInputError, match=r"copy\.deepcopy can copy; got a HoldsAResult.*nothing was charged"):
        model.fit(X, Y)
    assert ledger.remaining("rows").spent == 0
    assert not hasattr(model, "guarantee_")
