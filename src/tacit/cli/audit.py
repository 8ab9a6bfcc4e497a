"""`tacit audit`: attack what a fit command would fit, and write a certificate."""

from __future__ import annotations

from pathlib import Path

import typer

from tacit.cli import options
from tacit.cli.output import print_json, print_table, progress
from tacit.errors import InvalidInputError, words

CONTEXT = {"allow_interspersed_args": False}
COMMAND = typer.Argument(
    help="The command to audit, as in: fit nmf DATA --rank 5 --epsilon 1. It is read, not run: nothing is fitted or charged."
)
LEDGER = typer.Option(
    None, "--ledger", help="Chain the certificate into this ledger, under --dataset; it costs nothing."
)
ONLY = typer.Option([], "--only", help="Run this attack only, as in --only 'white box'; may be repeated.")
STAGES = 10
"""Expected number of stages: preparation, the attacks that apply to a model, and planted bugs."""


def audit(
    command: list[str] = COMMAND,
    only: list[str] = ONLY,
    deep: bool = typer.Option(False, "--deep", help="All attacks with many runs, for hours; resumable."),
    runs: int | None = typer.Option(None, help="Runs of the white-box attack; 400, or 10,000 with --deep."),
    seconds: float | None = typer.Option(
        None, help="Time for each attack; 10 seconds if not given, no limit with --deep."
    ),
    level: float = typer.Option(0.05, help="Probability that any statement of the audit is wrong."),
    bugs: bool = typer.Option(True, help="Plant bugs in the model, and see which the attacks catch."),
    made_up: bool = typer.Option(
        False, "--made-up", help="The data are made up, so that the certificate may be published."
    ),
    seed: int = typer.Option(0, help="Seed of the attacks' choices. It protects nothing."),
    output: Path = typer.Option(Path("tacit-audit"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = LEDGER,
    dataset: str | None = options.DATASET,
    as_json: bool = options.JSON,
) -> None:
    """Say how much an attacker can tell of what a fit releases, beside what is claimed.

    Options of the audit come before the command that is audited. Writes certificate.json, report.html and result.json, all
    for the holder, and journal.jsonl, from which an interrupted audit continues.
    """
    from tacit.audit import audit as attack
    from tacit.audit.findings import rounded_down
    from tacit.cli.audited import audited_command
    from tacit.report.result import ResultFolder

    if (ledger is None) != (dataset is None):
        raise InvalidInputError("--ledger and --dataset together", words("one of them"), "Give both, or neither.")
    with (
        ResultFolder(output, overwrite=overwrite, model=False) as folder,
        progress(STAGES, quiet=as_json) as advance,
    ):
        advance("reading the data")
        subject = audited_command(command)
        folder.occasion.data = subject.file.name
        result = attack(
            subject.estimator,
            subject.data,
            attacks=only or None,
            deep=deep,
            runs=runs,
            seconds=seconds,
            level=level,
            bugs=bugs,
            made_up=made_up,
            journal=output / "journal.jsonl",
            random_state=seed,
            progress=advance,
        )
        result.write(output)
        if ledger is not None and dataset is not None:
            from tacit.privacy.ledger.spending import open_ledger

            result.chain(open_ledger(ledger), dataset)
    if as_json:
        print_json(result.summary)
        return
    typer.echo(result.verdict)
    rows = [
        [one.method, one.target, "-" if one.epsilon is None else rounded_down(one.epsilon), one.violation or "-"]
        for one in result.findings
    ]
    print_table("Attacks", ["attack", "on", "epsilon, at least", "contradicts the claim"], rows)
    if result.bugs:
        caught = [[bug.kind, bug.name, ", ".join(bug.by) or "not caught"] for bug in result.bugs]
        print_table("Planted bugs", ["kind", "bug", "caught by"], caught)
    typer.echo(f"Certificate: {output / 'certificate.json'}. Report: {output / 'report.html'}")
