"""The third step: a run, its progress and its result; and all past runs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute

from tacit.app.budget import charges_during
from tacit.app.files import read_json, write_private
from tacit.app.limited import TimeoutExpired, run_limited
from tacit.app.questions import QUESTIONS
from tacit.app.runner import DONE, QUEUED, Run
from tacit.app.security import REPORT_POLICY
from tacit.app.site import AppSite, NoSuchPage, get, go, post
from tacit.errors import TacitError

REPORT, VALUES = "report.html", "result.json"
TRY_SECONDS = 60
"""Most time in which a page waits for a fitted model to be applied to one example. Set by hand."""
SHORT = {
    "rmse": "error of a rating (RMSE)",
    "mae": "mean absolute error (MAE)",
    "ndcg": "NDCG",
    "k": "length of a list",
    "n_users": "users measured",
    "n_ratings": "ratings measured",
}
"""Names of measures that need more words."""


def routes(site: AppSite) -> list[BaseRoute]:
    """Return the routes of the run pages."""
    pages = RunPages(site)
    return [
        get(site, "/runs", pages.all),
        get(site, "/runs/{run}", pages.show),
        get(site, "/runs/{run}/state", pages.state),
        get(site, "/runs/{run}/report", pages.report),
        get(site, "/runs/{run}/files/{file:path}", pages.file),
        post(site, "/runs/{run}/cancel", pages.cancel),
        post(site, "/runs/{run}/try", pages.try_out),
    ]


class RunPages:
    """The pages of runs."""

    def __init__(self, site: AppSite) -> None:
        self.site = site

    def all(self, request: Request) -> Response:
        """List all runs."""
        runs = [run for run in self.site.runner.runs() if run.spec["lane"] != "simulation"]
        return self.site.page(request, "runs.html", runs=runs)

    def show(
        self,
        request: Request,
        wrong: dict[str, str] | None = None,
        status: int = 200,
        history: str = "",
        listed: Sequence[Any] = (),
    ) -> Response:
        """Show one run."""
        run = self._run(request)
        result = read_json(run.output / VALUES) if run.state == DONE else None
        guarantee = (result or {}).get("guarantee", {})
        data = self.site.datasets.get(run.spec.get("data", ""))
        return self.site.page(
            request,
            "run.html",
            status,
            data=data,
            use=QUESTIONS[run.kind].use if run.kind in QUESTIONS else "",
            tries=self._tries(run),
            history=history,
            listed=listed,
            wrong=wrong or {},
            **self._shown(run),
            result=result,
            tables=_tables(result or {}),
            holds=guarantee.get("kind") == "differential privacy" and guarantee.get("epsilon") is not None,
            sentence=guarantee.get("sentence", ""),
            files=self._files(run),
            has_report=(run.output / REPORT).is_file(),
        )

    def state(self, request: Request) -> Response:
        """Return the part of the page that changes while a run goes on."""
        return self.site.page(request, "_state.html", **self._shown(self._run(request)))

    def cancel(self, request: Request, fields: dict[str, str]) -> Response:
        """Cancel a run."""
        run = self._run(request)
        self.site.runner.cancel(run.id)
        return go(f"/runs/{run.id}")

    def try_out(self, request: Request, fields: dict[str, str]) -> Response:
        """List items for a history that a person typed, by the model that may be passed on; nothing is charged."""
        run, history = self._run(request), fields.get("history", "")
        value = self._tries(run)
        if not value:
            raise NoSuchPage
        text, place = io.StringIO(), run.folder / "history.csv"
        writer = csv.writer(text)
        writer.writerow(["item", value])
        for line in filter(None, map(str.strip, history.splitlines())):
            item, comma, number = line.rpartition(",")
            if value == "rating" and not comma:
                return self.show(
                    request, {"history": "Write an item and its rating on each line, as in 17, 4."}, 422, history
                )
            writer.writerow([item.strip(), number.strip()] if comma else [line, "1"])
        write_private(place, text.getvalue())
        command = [
            *self.site.command,
            "recommend",
            str(run.output / run.spec["released"]),
            f"--ratings={place}",
            "--json",
        ]
        try:
            done = run_limited(command, memory=self.site.runner.memory, seconds=TRY_SECONDS)
            printed = json.loads(done.stdout)
        except (TimeoutExpired, ValueError):
            return self.show(request, {"history": "The model could not be asked. Try again later."}, 422, history)
        finally:
            place.unlink()
        if done.returncode:
            return self.show(request, {"history": str(printed.get("error", {}).get("message", ""))}, 422, history)
        listed = [(one["item"], f"{one.get('rating', one.get('score')):.3g}") for one in printed]
        return self.show(request, history=history, listed=listed)

    def report(self, request: Request) -> Response:
        """Return the report, which may contain no script, for a frame of the run's page."""
        path = self._run(request).output / REPORT
        if not path.is_file():
            raise NoSuchPage
        return FileResponse(path, headers={"content-security-policy": REPORT_POLICY}, media_type="text/html")

    def file(self, request: Request) -> Response:
        """Return a file of the result, to be saved."""
        run = self._run(request)
        for file in self._files(run):
            if file["path"] == request.path_params["file"]:
                headers = {"content-security-policy": REPORT_POLICY}
                path = run.output / file["path"]
                return FileResponse(path, filename=path.name, media_type="application/octet-stream", headers=headers)
        raise NoSuchPage

    def _tries(self, run: Run) -> str:
        """Return what a typed history gives for each item, "rating" or "weight"; empty if the run made no recommender."""
        if run.state != DONE or run.kind != "recommender" or not (run.output / run.spec["released"]).is_file():
            return ""
        return "weight" if "--implicit" in run.spec["command"] else "rating"

    def _run(self, request: Request) -> Run:
        run = self.site.runner.get(request.path_params["run"])
        if run is None:
            raise NoSuchPage
        return run

    def _shown(self, run: Run) -> dict[str, Any]:
        ahead = 0
        if run.state == QUEUED:
            waiting = [
                one for one in self.site.runner.runs() if not one.is_over and one.spec["lane"] == run.spec["lane"]
            ]
            ahead = sum(one.id < run.id for one in waiting)
        charges, delta, unread = [], 0.0, ""
        try:
            book = self.site.book()
            charges = charges_during(book, run.account, run.started, run.ended) if run.account else []
            if book is not None and charges:
                delta = book.account(run.account).delta
        except TacitError as error:  # a run can be seen and cancelled although the ledger cannot be read
            unread = str(error)
        told = run.error() if run.is_over else ""
        return {"run": run, "ahead": ahead, "charges": charges, "delta": delta, "unread": unread, "error": told}

    def _files(self, run: Run) -> list[dict[str, Any]]:
        """Return the files of a finished run; of one that stopped, what it had released and paid for before."""
        if not run.is_over or (run.state != DONE and not run.account):
            return []
        listing = []
        for path in sorted(run.output.rglob("*")):
            if path.is_file():
                name = str(Path(path).relative_to(run.output))
                released = name == run.spec.get("released")
                if released or run.state == DONE:
                    listing.append({"path": name, "size": path.stat().st_size, "released": released})
        return listing


def _tables(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what was measured as tables with one line per measure, and one column per model if there are several."""
    tables = []
    for name in ("scores", "measures", "held_out"):
        values = result.get(name)
        if not isinstance(values, dict) or not values:
            continue
        if all(isinstance(value, int | float) for value in values.values()):
            rows = [[_words(key), _cell(value)] for key, value in values.items()]
            tables.append({"columns": ["measure", "value"], "rows": rows})
        elif all(isinstance(value, dict) for value in values.values()):
            measures = dict.fromkeys(key for value in values.values() for key in value)
            rows = [[_words(key), *(_cell(value.get(key)) for value in values.values())] for key in measures]
            tables.append({"columns": ["measure", *values], "rows": rows})
    return tables


def _words(key: str) -> str:
    """Return the name of a measure for people."""
    return SHORT.get(key, key.replace("_", " "))


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_words(key)} {_cell(one)}" for key, one in value.items())
    if value is None or math.isnan(value):
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"  # whole numbers are counts
