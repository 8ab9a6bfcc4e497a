"""`tacit parties simulate`: all parties of a job on this computer, each a real process that talks over loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import print_json
from tacit.errors import PartyError, words

DATA = typer.Argument(
    help="One data set to split by rows, or one file a party (coupled models: one TOML file a party)."
)
SETTINGS = typer.Option([], "--set", help="A setting of the model, as n_components=14; repeat it.")
OUTPUT = typer.Option(Path("tacit-simulation"), "--output", "-o", help="Folder for the job and one folder a party.")
PATIENCE = 10.0
MAIN = "from tacit.cli.main import main; main()"


def simulate(
    data: list[Path] = DATA,
    parties: int = typer.Option(3, help="How many parties to split one data set over."),
    model: str = typer.Option("nmf", help="nmf, private-nmf, svd, pca, ..."),
    settings: list[str] = SETTINGS,
    target: str = typer.Option("", help="Column to predict, for regression."),
    colluding: int = typer.Option(1, help="How many parties may pool what they know (private models)."),
    word_bits: int = typer.Option(64, help="64 or 128: the size of the numbers that are summed."),
    timeout: float = typer.Option(60.0, help="Seconds that a party may stay silent."),
    seed: int = typer.Option(0, help="Seed of the split, for models without privacy."),
    output: Path = OUTPUT,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Start all parties of a job here, as real processes with identities, TLS and a job file of their own.

    What is written is what real parties would have: OUTPUT/job.toml, and for each its identity, data, model and report. It is a
    trial: no ledger is charged, so do not pass the models on.
    """
    from tacit.cli.parties_settings import settings_of
    from tacit.parties import Identity
    from tacit.parties.local import local_job
    from tacit.parties.models import check_job

    output.mkdir(parents=True, exist_ok=True)
    files = list(data) if len(data) > 1 else _split(data[0], parties, seed, output, private=model.startswith("private"))
    names = [f"party-{place + 1}" for place in range(len(files))]
    identities = [Identity.create(name) for name in names]
    job = local_job(
        identities,
        "simulation",
        settings_of(settings),
        _features(files, names, model, settings_of(settings), target),
        model=model,
        target=target,
        colluding=colluding,
        word_bits=word_bits,
        timeout=timeout,
    )
    check_job(job)
    for identity in identities:
        identity.write(output / identity.name / "identity")
    job.write(output / "job.toml")
    results = _run(output, names, files, quiet=as_json)
    if as_json:
        print_json({"parties": results})
        return
    typer.echo(results[0]["guarantee"]["sentence"])
    for result in results:
        traffic = result["traffic"]
        typer.echo(
            f"{result['party']}: {result['records']} records, {traffic['rounds']} rounds, {traffic['sent']:,} bytes sent, "
            f"{traffic['computing']:.1f} s computing, {traffic['waiting']:.1f} s waiting"
        )
    typer.echo(f"Reports: {output}/{names[0]}/report.html, ...")


def _features(files: list[Path], names: list[str], model: str, settings: dict[str, Any], target: str) -> list[str]:
    from tacit.cli.parties_relations import outlines_of_files
    from tacit.cli.parties_settings import feature_names
    from tacit.estimators.registry import JOBS, RELATIONS

    if model in JOBS and JOBS[model].data == RELATIONS:
        return outlines_of_files(files, names, settings.get("private", "user") if model.startswith("private") else None)
    return [column for column in feature_names(files[0]) if column != target]


def _run(output: Path, names: list[str], files: list[Path], *, quiet: bool) -> list[dict[str, Any]]:
    threads = str(max(1, (os.cpu_count() or 1) // len(names)))
    # the parts of a split have no accounts of their own: a simulation charges no ledger
    inherited = {name: value for name, value in os.environ.items() if name != "TACIT_LEDGER"}
    environment = {**inherited, "OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", MAIN, "parties", "join", str(output / "job.toml"), "--as", name),
                *("--data", str(file), "--identity", str(output / name / "identity"), "--output", str(output / name)),
                *("--progress", "lines", "--json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for name, file in zip(names, files, strict=True)
    ]
    try:
        answers: dict[str, dict[str, Any]] = {}  # in the order in which the parties end
        readers = [threading.Thread(target=_show, args=(process, quiet)) for process in processes]
        readers += [
            threading.Thread(target=_keep_answer, args=(process, name, answers))
            for process, name in zip(processes, names, strict=True)
        ]
        for reader in readers:
            reader.start()
        _wait(processes)
        for reader in readers:
            reader.join()
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
    failed = [(name, answer["error"]) for name, answer in answers.items() if "error" in answer]
    if failed:
        # what a party says of itself explains more than that the others saw it leave
        name, error = next((pair for pair in failed if pair[1]["kind"] != "PartyError"), failed[0])
        raise PartyError(f"{name} to finish", words(f"{error['kind']}: {error['message']}"), error["fix"])
    return [answers[name] for name in names]


def _wait(processes: list[subprocess.Popen[str]]) -> None:
    """Wait for all; once one has failed, the others get a moment to see it, as they would wait for it in vain."""
    failed_at = None
    while any(process.poll() is None for process in processes):
        if failed_at is None and any(process.poll() for process in processes):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > PATIENCE:
            for process in processes:
                process.kill()
        time.sleep(0.05)


def _keep_answer(process: subprocess.Popen[str], name: str, answers: dict[str, dict[str, Any]]) -> None:
    assert process.stdout is not None
    text = process.stdout.read()
    process.wait()
    try:
        answers[name] = json.loads(text)
    except ValueError:
        answers[name] = {"error": {"kind": "exit", "message": f"exit code {process.returncode}", "fix": ""}}


def _show(process: subprocess.Popen[str], quiet: bool) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if quiet:
            continue
        try:
            seen = json.loads(line)
            shown = (
                f"{seen['party']}: round {seen['round']}, {seen['sent']:,} bytes sent, {seen['computing']:.1f} s computing, "
                f"{seen['waiting']:.1f} s waiting"
            )
        except (ValueError, KeyError, TypeError):
            shown = line.rstrip()
        typer.echo(shown, err=True)


def _split(path: Path, parties: int, seed: int, output: Path, *, private: bool) -> list[Path]:
    """Distribute the rows of a file over the parties at random, one file per party.

    For a private model each row is assigned by itself: removing one row must not move other rows to other parties, whose
    sums are rounded one by one.
    """
    import numpy as np

    from tacit.data import read_matrix
    from tacit.data.split import parts_of_rows
    from tacit.validation import check_count

    check_count(parties, "parties", least=2)
    matrix = read_matrix(path)
    if private:
        part_of = parts_of_rows(matrix.X, parties)
        places = [np.flatnonzero(part_of == place) for place in range(parties)]
    else:
        order = np.random.default_rng(seed).permutation(matrix.X.shape[0])
        places = [np.sort(rows) for rows in np.array_split(order, parties)]
    names = matrix.names or tuple(f"column-{place}" for place in range(matrix.X.shape[1]))
    files = []
    for place, rows in enumerate(places):
        folder = output / f"party-{place + 1}"
        folder.mkdir(parents=True, exist_ok=True)
        part: Any = matrix.X[rows]
        if not isinstance(part, np.ndarray):
            part = part.tocsr()
            arrays = {name: getattr(part, name) for name in ("data", "indices", "indptr", "shape")} | {"format": b"csr"}
        else:
            arrays = {"X": part}
        np.savez(folder / "data.npz", **arrays, terms=np.array(names, dtype=str))
        files.append(folder / "data.npz")
    return files
