"""`tacit parties simulate`: all parties of a job on this computer, each a real process that talks over loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import print_json
from tacit.cli.parties_consent import private_files
from tacit.cli.parties_join import ACCEPT, HELD_OUT
from tacit.errors import InvalidInputError, PartyError, words

DATA = typer.Argument(
    help="One data set to split by rows (ratings: by users), or one file per party (coupled models: TOML files)."
)
SETTINGS = typer.Option([], "--set", help="A setting of the model, as n_components=14; repeat it.")
SCHEMA = typer.Option(None, help="For private-table: the public schema of the columns.")
OUTPUT = typer.Option(Path("tacit-simulation"), "--output", "-o", help="Folder for the job, with one folder per party.")
PATIENCE = 10.0
"""Seconds that the other parties have to end after one failed; then they are stopped."""
SECONDS_PER_LINE = 1.0
"""Each party's rounds are shown once in this time."""
MAIN = "from tacit.cli.main import main; main()"


def simulate(
    data: list[Path] = DATA,
    parties: int = typer.Option(3, help="How many parties to split one data set over."),
    model: str = typer.Option("nmf", help="nmf, private-nmf, svd, pca, ..."),
    settings: list[str] = SETTINGS,
    schema: Path | None = SCHEMA,
    target: str = typer.Option("", help="Column to predict, for regression."),
    colluding: int = typer.Option(1, help="How many parties may pool what they know (private models)."),
    survive: int = typer.Option(0, help="How many parties may leave for good without ending the run."),
    word_bits: int = typer.Option(128, help="64 or 128: the size of the numbers that are summed."),
    held_out: float | None = HELD_OUT,
    timeout: float = typer.Option(60.0, help="Seconds without a sign of life after which a party counts as gone."),
    accept_no_guarantee: bool = ACCEPT,
    seed: int = typer.Option(0, help="Seed of the split, for models without privacy."),
    output: Path = OUTPUT,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Start all parties of a job here, as real processes with identities, TLS and a job file of their own.

    What is written is what real parties would have: OUTPUT/job.toml, and for each its identity, data, model and report. It is a
    trial: no ledger is charged, so do not pass the models on.
    """
    from tacit.cli.parties_settings import schema_columns, settings_of
    from tacit.estimators.registry import JOBS, RECORDS
    from tacit.parties import Identity
    from tacit.parties.local import local_job
    from tacit.parties.models import check_job

    given = settings_of(settings)
    private = model.startswith("private")
    records = schema_columns(schema, model, given) if model in JOBS and JOBS[model].data == RECORDS else None
    if len(data) > 1:
        split = None
    elif records is not None:
        split = _split_records(data[0], parties, records, given.get("unit_column"))
    else:
        split = _split(data[0], parties, seed, model, private=private)
    names = [f"party-{place + 1}" for place in range(len(data) if split is None else len(split.parts))]
    identities = [Identity.create(name) for name in names]
    features = split.features if split is not None else records or _features(data, names, model, given, target)
    job = local_job(
        identities,
        "simulation",
        given,
        [column for column in features if column != target],
        model=model,
        target=target,
        colluding=colluding,
        survive=survive,
        word_bits=word_bits,
        timeout=timeout,
    )
    check_job(job, accept_no_guarantee=accept_no_guarantee)
    _check_unused(output, names)
    with private_files():
        files = list(data) if split is None else split.write(output, names)
        for identity in identities:
            identity.write(output / identity.name / "identity")
        job.write(output / "job.toml")
    words_of_all = ["--accept-no-guarantee"] if accept_no_guarantee else []
    words_of_all += [] if held_out is None else ["--held-out", str(held_out)]
    results = _run(output, names, files, words_of_all, quiet=as_json)
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
    from tacit.estimators.registry import JOBS, RATINGS, RELATIONS

    if model in JOBS and JOBS[model].data == RELATIONS:
        private = settings.get("private", "user") if model.startswith("private") else None
        return outlines_of_files(files, names, private, settings.get("shared"))
    if model in JOBS and JOBS[model].data == RATINGS:
        from tacit.data.files import read_frame

        # on one computer, where nothing leaves; real parties agree on a list of items
        return sorted({str(item) for file in files for item in read_frame(file)["item"].to_list()})
    return [column for column in feature_names(files[0], model) if column != target]


def _check_unused(output: Path, names: list[str]) -> None:
    """Refuse a folder of an earlier simulation before anything in it is overwritten."""
    existing = [name for name in ("job.toml", *names) if (output / name).exists()]
    if existing:
        raise InvalidInputError(
            "an output folder without an earlier simulation",
            words(f"one that holds {existing[0]}"),
            "Nothing was written. Give another folder with --output, or delete the old one.",
        )


def _run(
    output: Path, names: list[str], files: list[Path], words_of_all: list[str], *, quiet: bool
) -> list[dict[str, Any]]:
    """Start a process for each party, with some words of the command line for all of them, and return their results."""
    threads = str(max(1, (os.cpu_count() or 1) // len(names)))
    # the parts of a split have no accounts of their own: a simulation charges no ledger
    inherited = {name: value for name, value in os.environ.items() if name != "TACIT_LEDGER"}
    environment = {**inherited, "OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", MAIN, "parties", "join", str(output / "job.toml"), "--as", name),
                *("--data", str(file), "--identity", str(output / name / "identity"), "--output", str(output / name)),
                *("--progress", "lines", "--json", "--yes"),
                *words_of_all,
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
        # an error of a party itself explains more than the error of a party that lost it
        name, error = next((pair for pair in failed if pair[1]["kind"] != "PartyError"), failed[0])
        raise PartyError(f"{name} to finish", words(f"{error['kind']}: {error['message']}"), error["fix"])
    return [answers[name] for name in names]


def _wait(processes: list[subprocess.Popen[str]]) -> None:
    """Wait for all; once one has failed, the others are stopped after a moment, because they would wait for it."""
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
    last = -SECONDS_PER_LINE
    for line in process.stderr:
        if quiet:
            continue
        try:
            seen = json.loads(line)
            if time.monotonic() - last < SECONDS_PER_LINE and "round" in seen:
                continue  # hundreds of rounds in a few seconds
            last = time.monotonic()
            shown = (
                f"{seen['party']}: round {seen['round']}, {seen['sent']:,} bytes sent, {seen['computing']:.1f} s computing, "
                f"{seen['waiting']:.1f} s waiting"
            )
        except (ValueError, KeyError, TypeError):
            shown = line.rstrip()
        typer.echo(shown, err=True)


@dataclass(frozen=True)
class _Split:
    """One data set, distributed over the parties: the content of each party's file, and the job's features."""

    parts: list[Any]
    features: list[str]

    def write(self, output: Path, names: list[str]) -> list[Path]:
        """Write one file per party."""
        import numpy as np

        files = []
        for name, part in zip(names, self.parts, strict=True):
            folder = output / name
            folder.mkdir(parents=True, exist_ok=True)
            if isinstance(part, dict):
                files.append(folder / "data.npz")
                np.savez(files[-1], **part)
            else:
                files.append(folder / "data.csv")
                part.write_csv(files[-1])
        return files


def _split_records(path: Path, parties: int, columns: list[str], unit_column: str | None) -> _Split:
    """Distribute records over the parties, each by its own content, or all records of a person by the person."""
    from tacit.data.files import read_frame
    from tacit.data.split import parts_of_ids
    from tacit.validation import check_count

    check_count(parties, "parties", least=2)
    frame = read_frame(path, as_text=True)
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise InvalidInputError("the columns of the schema", words(f"no {missing[0]!r}"), "Check the names.")
    if unit_column is None:
        units = ["\x1f".join(str(cell) for cell in row) for row in frame.select(columns).iter_rows()]
    else:
        units = frame[str(unit_column)].to_list()
    part_of = parts_of_ids(units, parties)
    return _Split([frame.filter(part_of == place) for place in range(parties)], columns)


def _split(path: Path, parties: int, seed: int, model: str, *, private: bool) -> _Split:
    """Distribute the units of a file over the parties at random: rows, or users with all their ratings.

    For a private model each unit is assigned by itself: removing one must not move others to other parties, whose sums are
    rounded one by one.
    """
    import numpy as np

    from tacit.data import read_matrix
    from tacit.data.files import read_frame
    from tacit.data.split import parts_of_ids, parts_of_rows
    from tacit.estimators.registry import JOBS, RATINGS
    from tacit.validation import check_count

    check_count(parties, "parties", least=2)
    if (
        model in JOBS
        and JOBS[model].data == RATINGS
        and path.name.lower().endswith((".csv", ".csv.gz", ".tsv", ".parquet"))
    ):
        frame = read_frame(path)
        if not {"user", "item", "rating"} <= set(frame.columns):
            raise InvalidInputError("columns user, item and rating", words("others"), "Rename the columns.")
        part_of = parts_of_ids(frame["user"], parties, key=None if private else seed.to_bytes(32, "big", signed=True))
        items = sorted({str(item) for item in frame["item"].to_list()})
        return _Split([frame.filter(part_of == place) for place in range(parties)], items)
    matrix = read_matrix(path)
    if private:
        part_of = parts_of_rows(matrix.X, parties)
        places = [np.flatnonzero(part_of == place) for place in range(parties)]
    else:
        order = np.random.default_rng(seed).permutation(matrix.X.shape[0])
        places = [np.sort(rows) for rows in np.array_split(order, parties)]
    names = matrix.names or tuple(f"column-{place}" for place in range(matrix.X.shape[1]))
    parts: list[Any] = []
    for rows in places:
        part: Any = matrix.X[rows]
        if not isinstance(part, np.ndarray):
            part = part.tocsr()
            arrays = {name: getattr(part, name) for name in ("data", "indices", "indptr", "shape")} | {"format": b"csr"}
        else:
            arrays = {"X": part}
        parts.append({**arrays, "terms": np.array(names, dtype=str)})
    return _Split(parts, list(names))
