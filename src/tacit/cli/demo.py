"""`tacit demo`: the whole way, on embedded data: plan, charge, release, guarantee, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import print_json, progress

SIDE, PARTS, ROW_NORM = 12, 8, 1.5
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


OUTPUT = typer.Option(Path("tacit-demo"), help="Folder to write the model, result and report to.")


def demo(
    output: Path = OUTPUT,
    epsilon: float = typer.Option(1.0, help="Total privacy loss of the fit."),
    delta: float = typer.Option(1e-6, help="Failure probability of the fit."),
    images: int = typer.Option(2000, help="Number of embedded images, one person each."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Find the parts of images nobody may look at, and see what the privacy cost.

    Each of the embedded images stands for one person. Their mean and covariance are released with noise; the parts are
    factorised from these.
    """
    from tacit.privacy.rounding import exact, rounded_down
    from tacit.validation import check_count, check_delta, check_epsilon

    check_epsilon(epsilon)
    check_delta(delta)
    check_count(images, "images", least=10)
    with progress(6, quiet=as_json) as advance:
        result = _demonstrate(output, epsilon, delta, images, advance)
    if as_json:
        print_json(result)
        return
    found = result["similarity_to_the_true_parts"]
    typer.echo("")
    typer.secho("Guarantee", bold=True)
    typer.echo(result["guarantee"]["sentence"])
    typer.echo("")
    typer.secho("What privacy cost", bold=True)
    typer.echo(
        f"The {PARTS} private parts are similar to the true ones by {found['private']:.3f} (mean cosine); without privacy "
        f"{found['without_privacy']:.3f}."
    )
    left = rounded_down(result["budget_left"])
    typer.echo(f"The ledger has {left} of epsilon {exact(2 * epsilon)} left for these images.")
    typer.echo(f"Report: {output / 'report.html'}")


def _demonstrate(output: Path, epsilon: float, delta: float, images: int, advance: Any) -> dict[str, Any]:
    import json

    from tacit.data import make_images
    from tacit.factor import NMF, PrivateNMF
    from tacit.measure import match_topics
    from tacit.privacy import Ledger, fingerprint, gaussian_noise_multiplier

    (output / "model").mkdir(parents=True, exist_ok=True)
    advance("making the embedded images")
    data = make_images(images, side=SIDE, n_parts=PARTS)

    advance("calibrating the noise")
    multiplier = gaussian_noise_multiplier(epsilon, delta)

    advance("opening an account in the ledger")
    ledger_file = output / "ledger.db"
    ledger_file.unlink(missing_ok=True)  # the demonstration's own; a real ledger is never deleted
    ledger = Ledger(ledger_file)
    dataset = fingerprint(data.images)
    ledger.open_account(dataset, 2 * epsilon, delta)

    advance("releasing mean and covariance through the noisy channel, and factorising")
    model = PrivateNMF(PARTS, epsilon=epsilon, delta=delta, row_norm=ROW_NORM, ledger=ledger).fit(data.images)
    model.save(output / "model" / "nmf.tacit")
    plain = NMF(PARTS).fit(data.images)
    matches = {
        "private": match_topics(data.parts, model.components_),
        "without privacy": match_topics(data.parts, plain.components_),
    }

    advance("measuring what privacy costs at other epsilons")
    curve = []
    for place, candidate in enumerate(EPSILONS):
        # other people's images each time: a second look at the same ones would cost their budget
        other = make_images(images, side=SIDE, n_parts=PARTS, random_state=place + 1)
        fitted = PrivateNMF(PARTS, epsilon=candidate, delta=delta, row_norm=ROW_NORM).fit(other.images)
        curve.append(match_topics(other.parts, fitted.components_).mean_similarity)

    advance("writing the report")
    left = ledger.remaining(dataset)
    result = {
        "guarantee": model.guarantee_.to_dict(),
        "noise_multiplier_of_one_sum": multiplier,
        "images": images,
        "similarity_to_the_true_parts": {
            name.replace(" ", "_"): match.mean_similarity for name, match in matches.items()
        },
        "similarity_by_epsilon": dict(zip(map(str, EPSILONS), curve, strict=True)),
        "budget_left": left.epsilon,
        "ledger_entries": ledger.verify(),
    }
    parts = {"the truth": data.parts, "private": model.components_[matches["private"].permutation]}
    parts["without privacy"] = plain.components_[matches["without privacy"].permutation]
    report = _report(model, parts, data.shape, curve, left, matches["without privacy"].mean_similarity)
    report.write(output / "report.html")
    (output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def _report(model: Any, parts: Any, shape: tuple[int, int], curve: list[float], left: Any, possible: float) -> Any:
    from tacit.privacy.rounding import exact, rounded_down, rounded_up
    from tacit.report import Report
    from tacit.report.figures import frontier, image_rows

    report = Report(
        "tacit demonstration",
        "Embedded images, one person each, made of a few parts. The images are synthetic: with real ones there is no truth "
        "to compare with, and what is compared with the fit without privacy would stay with the holder.",
    )
    report.guarantee(model.guarantee_)
    caption = "What the images were made of, and what was found, in the same order."
    report.figure("Parts", image_rows(parts, shape), caption)
    report.figure(
        "What privacy costs",
        frontier(
            EPSILONS,
            curve,
            reference=possible,
            value_name="similarity to the true parts",
            reference_name="without privacy",
        ),
        "Mean cosine of the private parts with the true ones, on fresh images at each epsilon.",
    )
    rows = [
        ["spent", rounded_up(left.spent)],
        ["left", rounded_down(left.epsilon)],
        ["delta", exact(left.delta)],
    ]
    # the account's name is a hash of the private data, so it stays out of what is passed on
    note = "The account is named by the fingerprint of the images."
    report.table("The ledger", ["epsilon", "value"], rows, note=note)
    return report
