"""`tacit demo`: the whole way, on embedded data: plan, charge, release, guarantee, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.output import print_json, progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROW_NORM = 2.0
COMPONENTS = 6
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


OUTPUT = typer.Option(Path("tacit-demo"), help="Folder to write the model, result and report to.")


def demo(
    output: Path = OUTPUT,
    epsilon: float = typer.Option(1.0, help="Total privacy loss of the fit."),
    delta: float = typer.Option(1e-6, help="Failure probability of the fit."),
    images: int = typer.Option(8000, help="Number of embedded images, one person each."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Fit the principal components of images nobody may look at, and see what the privacy cost.

    Each of the embedded images stands for one person. Their second moment is released once, with noise; the
    components are computed from it.
    """
    from tacit.validation import check_count, check_delta, check_epsilon

    check_epsilon(epsilon)
    check_delta(delta)
    check_count(images, "images", least=10)
    with progress(6, quiet=as_json) as advance:
        result = _demonstrate(output, epsilon, delta, images, advance)
    if as_json:
        print_json(result)
        return
    kept, possible = result["variance_explained"]["private"], result["variance_explained"]["without_privacy"]
    typer.echo("")
    typer.secho("Guarantee", bold=True)
    typer.echo(result["guarantee"]["sentence"])
    typer.echo("")
    typer.secho("What privacy cost", bold=True)
    typer.echo(f"{COMPONENTS} private components explain {kept:.1%} of the variance; without privacy {possible:.1%}.")
    typer.echo(f"The ledger has {result['budget_left']:.3f} of epsilon {2 * epsilon:g} left for these images.")
    typer.echo(f"Report: {output / 'report.html'}")


def _demonstrate(output: Path, epsilon: float, delta: float, images: int, advance: Any) -> dict[str, Any]:
    import json

    from tacit.data import make_images
    from tacit.factor.moments import PrivateMoments
    from tacit.privacy import Ledger, fingerprint, gaussian_noise_multiplier
    from tacit.report import Report
    from tacit.report.figures import frontier, image_rows

    (output / "model").mkdir(parents=True, exist_ok=True)
    advance("making the embedded images")
    data = make_images(images, side=12, n_parts=10)
    X = data.images

    advance("calibrating the noise")
    multiplier = gaussian_noise_multiplier(epsilon, delta)

    advance("opening an account in the ledger")
    ledger_file = output / "ledger.db"
    ledger_file.unlink(missing_ok=True)  # the demonstration's own; a real ledger is never deleted
    ledger = Ledger(ledger_file)
    dataset = fingerprint(X)
    ledger.open_account(dataset, 2 * epsilon, delta)

    advance("releasing the moments through the noisy channel")
    model = PrivateMoments(epsilon=epsilon, delta=delta, row_norm=ROW_NORM, ledger=ledger).fit(X)
    model.save(output / "model" / "moments.tacit")
    plain = PrivateMoments(epsilon=float("inf"), row_norm=ROW_NORM).fit(X)
    private_parts, plain_parts = _components(model), _components(plain)

    advance("measuring what privacy costs at other epsilons")
    explained = {"private": _explained(X, private_parts), "without_privacy": _explained(X, plain_parts)}
    curve = []
    for place, candidate in enumerate(EPSILONS):
        # other people's images each time: a second look at the same ones would cost their budget
        other = make_images(images, side=12, n_parts=10, random_state=place + 1).images
        fitted = PrivateMoments(epsilon=candidate, delta=delta, row_norm=ROW_NORM).fit(other)
        reference = PrivateMoments(epsilon=float("inf"), row_norm=ROW_NORM).fit(other)
        curve.append(_explained(other, _components(fitted)) / _explained(other, _components(reference)))

    advance("writing the report")
    left = ledger.remaining(dataset)
    result = {
        "guarantee": model.guarantee_.to_dict(),
        "noise_multiplier": multiplier,
        "images": images,
        "components": COMPONENTS,
        "variance_explained": explained,
        "share_kept_by_epsilon": dict(zip(map(str, EPSILONS), curve, strict=True)),
        "budget_left": left.epsilon,
        "ledger_entries": ledger.verify(),
    }
    report = Report(
        "tacit demonstration",
        f"{images} embedded images, one person each; their second moment is released once. The images are synthetic: with "
        "real ones, what is compared with the fit without privacy would stay with the holder.",
    )
    report.guarantee(model.guarantee_)
    report.figure(
        "Components",
        image_rows({"private": private_parts, "without privacy": plain_parts}, data.shape),
        "Leading eigenvectors of the second moment. They are ordered by variance; where two are close in "
        "variance, noise may mix or swap them, and signs are arbitrary.",
    )
    report.figure(
        "What privacy costs",
        frontier(
            EPSILONS,
            curve,
            reference=1.0,
            value_name="variance kept, relative",
            reference_name="without privacy",
        ),
        f"Variance explained by {COMPONENTS} private components over that of {COMPONENTS} ordinary ones, on fresh images at "
        "each epsilon.",
    )
    rows = [["spent", f"{left.spent:.4f}"], ["left", f"{left.epsilon:.4f}"], ["delta", f"{left.delta:g}"]]
    # the account's name is a hash of the private data, so it stays out of what is passed on
    report.table(
        "The ledger", ["epsilon", "value"], rows, note="The account is named by the fingerprint of the images."
    )
    report.write(output / "report.html")
    (output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def _components(model: Any) -> NDArray[np.float64]:
    import numpy as np

    _, vectors = np.linalg.eigh(model.second_moment_)
    parts: NDArray[np.float64] = vectors[:, ::-1][:, :COMPONENTS].T
    return parts


def _explained(X: NDArray[np.float64], parts: NDArray[np.float64]) -> float:
    return float(((X @ parts.T) ** 2).sum() / (X**2).sum())
