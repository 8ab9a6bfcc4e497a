"""Figures 7.7 and 8.2: the noise that advanced composition and zCDP ask for, and the sound one."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier
from tacit.privacy.published import ermis_advanced_noise_multiplier, ermis_zcdp_noise_multiplier
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide


@dataclass(frozen=True)
class Setting:
    """A training run: steps, sampling rate and delta; `printed` has epsilon, and the sigma of AC and of zCDP."""

    title: str
    steps: int
    rate: float
    delta: float
    printed: tuple[float, float, float] | None = None


SYNTHETIC = Setting("synthetic matrices", 300, 0.02, 1e-3, (1.0, 8.14, 2.87))
MOVIELENS = Setting("MovieLens, one site", 120_000, 0.001, 1e-4)
MNIST = Setting("MNIST", 20_000, 0.01, 1e-4, (0.5, 10.88, 3.23))
DIGITS = Setting("DIGITS", 2_000, 0.05, 1e-4)
"""Pages 106 and 124: T = E / rate."""


def _compared(run: ItemRun, caption: str, settings: tuple[Setting, ...]) -> ItemOutcome:
    epsilons = run.pick((0.1, 0.5, 1.0, 2.0, 5.0, 10.0), (1.0,))
    figures, rows = [], []
    for setting in run.each(run.pick(settings, settings[:1])):
        given = (setting.delta, setting.steps, setting.rate)
        lines = {
            "AC": [ermis_advanced_noise_multiplier(epsilon, *given) for epsilon in epsilons],
            "zCDP": [ermis_zcdp_noise_multiplier(epsilon, *given) for epsilon in epsilons],
            "sound": [
                gaussian_noise_multiplier(epsilon, setting.delta, steps=setting.steps, sampling_rate=setting.rate)
                for epsilon in epsilons
            ],
        }
        curves = tuple(Curve(name, epsilons, tuple(values)) for name, values in lines.items())
        figures.append(Figure(f"{caption}, {setting.title}", "epsilon", "sigma", curves, log_x=True, log_y=True))
        if setting.printed is None:
            continue
        epsilon, *printed = setting.printed
        for name, paper, formula in zip(
            ("AC", "zCDP"), printed, (ermis_advanced_noise_multiplier, ermis_zcdp_noise_multiplier), strict=True
        ):
            real = gaussian_epsilon(paper, setting.delta, steps=setting.steps, sampling_rate=setting.rate)
            by_epochs = formula(epsilon, setting.delta, round(setting.steps * setting.rate), setting.rate)
            remark = (
                f"By T = epochs instead of steps the formula gives {by_epochs:.2f}: neither is the printed sigma, which costs "
                f"epsilon {real:.3g} instead of {epsilon:g}."
            )
            label = (setting.title, name, f"{epsilon:g}")
            rows.append(Row(label, paper, (formula(epsilon, *given),), None, remark, 2))
        sound = gaussian_noise_multiplier(epsilon, setting.delta, steps=setting.steps, sampling_rate=setting.rate)
        rows.append(Row((setting.title, "sound", f"{epsilon:g}"), None, (sound,), None, "What this epsilon needs.", 2))
    columns = ("data", "accounting", "epsilon")
    table = SideBySide(f"{caption}: sigma by the formulas of appendix E", columns, tuple(rows))
    return ItemOutcome((table,), tuple(figures))


@item(
    paper="ermis",
    name="figure-7.7",
    title="Sigma by epsilon for coupled factorisation",
    page=107,
    minutes=2,
    code=("tacit.privacy.published.ermis_zcdp_noise_multiplier", "tacit.privacy.calibration.gaussian_noise_multiplier"),
)
def figure_7_7(run: ItemRun) -> ItemOutcome:
    """Figure 7.7, page 107."""
    return _compared(run, "Figure 7.7", (SYNTHETIC, MOVIELENS))


@item(
    paper="ermis",
    name="figure-8.2",
    title="Sigma by epsilon for networks",
    page=124,
    minutes=2,
    code=("tacit.privacy.published.ermis_zcdp_noise_multiplier", "tacit.privacy.calibration.gaussian_noise_multiplier"),
)
def figure_8_2(run: ItemRun) -> ItemOutcome:
    """Figure 8.2, page 124."""
    return _compared(run, "Figure 8.2", (MNIST, DIGITS))
