"""The second step: a question and a budget, with the planned guarantee, the ledger and a simulation.

No private row is read here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tacit.app.budget import PlannedCharge, planned
from tacit.app.datasets import CLICKS, RATINGS, TABLE, TEXT_COLUMN, TEXTS, DataSet
from tacit.app.files import new_id, read_json, write_json
from tacit.app.questions import QUESTIONS, Context, Question, command_line, defaults, questions_for
from tacit.app.runner import DONE, Run
from tacit.app.site import AppSite, NoSuchPage, get, go, post
from tacit.data.schema import CategoryColumn, TableSchema
from tacit.errors import InvalidInputError, TacitError
from tacit.privacy.ledger import Ledger

FACTOR_NAME = re.compile(r"[^\s=-][^=]{0,80}")
VALUE_RANGE = re.compile(r"-?\d+(\.\d+)?:-?\d+(\.\d+)?")


def routes(site: AppSite) -> list[BaseRoute]:
    """Return the routes of the question pages."""
    pages = QuestionPages(site)
    base = "/data/{data}/question"
    return [
        get(site, base, pages.choose),
        get(site, base + "/{question}", pages.ask),
        get(site, base + "/{question}/plan", pages.plan),
        get(site, base + "/{question}/simulation", pages.simulation),
        post(site, base + "/{question}/account", pages.open_account),
        post(site, base + "/{question}/simulate", pages.simulate),
        post(site, base + "/{question}/run", pages.run),
    ]


class QuestionPages:
    """The pages of questions."""

    def __init__(self, site: AppSite) -> None:
        self.site = site

    def choose(self, request: Request) -> Response:
        """List the questions that fit the data set."""
        data = self.site.data(request)
        if not data.ready:
            return go(f"/data/{data.id}")
        offered = []
        for question in questions_for(data):
            offered.append((question, question.unfit(self._context(data, defaults(question)))))
        return self.site.page(request, "questions.html", data=data, offered=offered)

    def ask(self, request: Request, wrong: dict[str, str] | None = None, status: int = 200, **values: str) -> Response:
        """Show the form of a question."""
        data, question = self._asked(request)
        if not data.ready:
            return go(f"/data/{data.id}")
        kept = self._kept(data, question)
        values = {**defaults(question), **kept.get("values", {}), **values}
        plan = self._plan(data, values) if question.private else None
        return self.site.page(
            request,
            "question.html",
            status,
            ticket=new_id(),
            used=self._used(data, question, values),
            data=data,
            question=question,
            values=values,
            settings=[one for one in question.settings if _applies(one.name, data)],
            label_choices=self._labels(data),
            plan=plan,
            run=self._simulated(kept),
            results=_results(self._simulated(kept)),
            wrong=wrong or {},
        )

    def plan(self, request: Request) -> Response:
        """Return the part of the page that follows the sliders."""
        data, _ = self._asked(request)
        values = {name: request.query_params.get(name, "") for name in ("epsilon", "delta")}
        return self.site.page(request, "_plan.html", data=data, plan=self._plan(data, values))

    def simulation(self, request: Request) -> Response:
        """Return the part of the page that shows the simulation."""
        data, question = self._asked(request)
        run = self._simulated(self._kept(data, question))
        return self.site.page(request, "_simulation.html", data=data, question=question, run=run, results=_results(run))

    def open_account(self, request: Request, fields: dict[str, str]) -> Response:
        """Open the data set's account in the ledger."""
        data, question = self._asked(request)
        wrong = open_account(self.site, data.name, fields, data.unit)
        if wrong:
            return self.ask(request, wrong, 422, **{name: fields.get(name, "") for name in wrong})
        return go(f"/data/{data.id}/question/{question.key}")

    def simulate(self, request: Request, fields: dict[str, str]) -> Response:
        """Start a simulation; only what is stated as public goes into it."""
        data, question = self._asked(request)
        values = self._values(question, fields)
        wrong = question.problems(values, sizes=True)
        plan = planned(values["epsilon"], values["delta"], data.unit, None, "")
        wrong |= plan.wrong | self._unfit(data, question, values)
        if wrong or not question.sizes:
            return self.ask(request, wrong, 422, **values)
        spec = self._spec(data, question, values)
        command = [sys.executable, "-m", "tacit.app.simulate", json.dumps(spec)]
        earlier = self._simulated(self._kept(data, question))
        if earlier is not None:
            self.site.runner.cancel(earlier.id)
        name = self.site.runner.submit("simulation", f"Simulation: {question.title}", command, lane="simulation")
        self._keep(data, question, values, name)
        return go(f"/data/{data.id}/question/{question.key}#simulation")

    def run(self, request: Request, fields: dict[str, str]) -> Response:
        """Put the fit into the queue, if nothing is wrong with the form."""
        data, question = self._asked(request)
        values = self._values(question, fields)
        wrong = question.problems(values) | self._unfit(data, question, values)
        if question.private:
            plan = self._plan(data, values)
            wrong |= plan.wrong
            if plan.now is None and not plan.wrong:
                wrong["total_epsilon"] = "Open the data set's account first: how much may it ever cost?"
        if not data.ready:
            return go(f"/data/{data.id}")
        if wrong:
            return self.ask(request, wrong, 422, **values)
        self._keep(data, question, values, self._kept(data, question).get("simulation", ""))
        reads = data.reads
        if values.get("words"):
            values["words"] = str(self._word_list(values))
            reads = [*reads, values["words"]]
        context = self._context(data, values)
        arguments = question.command(context)
        name = self.site.runner.submit(
            question.key,
            f"{question.title}: {data.name}",
            [*self.site.command, *arguments],
            account=data.name if question.private else "",
            ticket=fields.get("ticket", ""),
            data=data.id,
            reads=reads,
            folders=[str(folder) for folder in self.site.roots.readable],
            released=question.released.format(**values) if question.private else "",
            line=command_line(arguments, f"tacit-{question.key}"),
            code=question.code(context),
        )
        return go(f"/runs/{name}")

    def _asked(self, request: Request) -> tuple[DataSet, Question]:
        data, question = self.site.data(request), QUESTIONS.get(request.path_params["question"])
        if question is None or data.kind not in question.kinds:
            raise NoSuchPage
        return data, question

    def _context(self, data: DataSet, values: Mapping[str, str]) -> Context:
        return Context(data, self.site.datasets, values, self.site.ledger)

    def _plan(self, data: DataSet, values: Mapping[str, str]) -> PlannedCharge:
        return planned(values["epsilon"], values["delta"], data.unit, self.site.book(), data.name)

    def _values(self, question: Question, fields: dict[str, str]) -> dict[str, str]:
        return {name: fields.get(name, default) for name, default in defaults(question).items()}

    def _unfit(self, data: DataSet, question: Question, values: Mapping[str, str]) -> dict[str, str]:
        reason = data.unreadable(self.site.roots.readable) or question.unfit(self._context(data, values))
        wrong = {"question": reason} if reason else {}
        if any(one.name == "label" for one in question.settings):
            label = values.get("label", "")
            if (label or question.key == "network") and label not in self._labels(data):
                wrong["label"] = "Choose a column with categories."
        if question.key == "private_coupled":
            if not FACTOR_NAME.fullmatch(values["private"].strip()):
                wrong["private"] = "Give the name of a factor of the TOML file."
            if not VALUE_RANGE.fullmatch(values["value_range"].strip()):
                wrong["value_range"] = "Give two numbers, as in 1:5."
        if question.key == "network" and not _widths(values["hidden"]):
            wrong["hidden"] = "Give widths as in 64,32, or none."
        if values.get("words") and self._word_list(values) is None:
            wrong["words"] = "Give a file below a folder that the app was started with, or leave this empty."
        return wrong

    def _word_list(self, values: Mapping[str, str]) -> Path | None:
        """Return the file of public words that was named by its path below one of the folders; None if there is none."""
        for root in range(len(self.site.roots.folders)):
            try:
                file = self.site.roots.find(str(root), values.get("words", "").strip())
            except InvalidInputError:
                continue
            if file.is_file():
                return file
        return None

    def _used(self, data: DataSet, question: Question, values: Mapping[str, str]) -> list[str]:
        """Return the columns that a model of numbers uses, if it does not use all."""
        context = self._context(data, values)
        if data.kind != TABLE or question.key == "synthetic" or not context.chosen():
            return []
        return list(context.numbers())

    def _labels(self, data: DataSet) -> list[str]:
        if data.kind != TABLE:
            return []
        columns = TableSchema.load(self.site.datasets.schema(data)).columns
        return [name for name, spec in columns.items() if isinstance(spec, CategoryColumn)]

    def _spec(self, data: DataSet, question: Question, values: Mapping[str, str]) -> dict[str, Any]:
        """Return what a simulation is given: settings, sizes that were stated, and what is public about the columns."""
        spec: dict[str, Any] = {
            "question": question.key,
            "epsilon": float(values["epsilon"]),
            "delta": float(values["delta"]),
        }
        for one in question.settings + question.sizes:
            spec[one.name] = int(values[one.name]) if one.least is not None else values[one.name]
        if data.kind in (RATINGS, CLICKS):
            spec["items"] = self.site.datasets.catalogue(data).read_text(encoding="utf-8").count("\n")
        if data.kind == RATINGS:
            spec |= {"low": float(data.answers["low"]), "high": float(data.answers["high"])}
        if question.key == "synthetic":
            spec["schema"] = TableSchema.load(self.site.datasets.schema(data)).to_dict()
        if question.key == "network":
            schema = TableSchema.load(self.site.datasets.schema(data))
            label = schema.columns[values["label"]]
            assert isinstance(label, CategoryColumn)
            spec |= {
                "columns": len(self._context(data, values).numbers()),
                "classes": len(label.categories),
                "hidden": _widths(values["hidden"])[1:],
            }
        return spec

    def _kept(self, data: DataSet, question: Question) -> dict[str, Any]:
        return read_json(self.site.datasets.place(data) / f"question-{question.key}.json") or {}

    def _keep(self, data: DataSet, question: Question, values: Mapping[str, str], simulation: str) -> None:
        place = self.site.datasets.place(data) / f"question-{question.key}.json"
        write_json(place, {"values": dict(values), "simulation": simulation})

    def _simulated(self, kept: Mapping[str, Any]) -> Run | None:
        return self.site.runner.get(kept.get("simulation", ""))


def open_account(site: AppSite, name: str, fields: Mapping[str, str], unit: str) -> dict[str, str]:
    """Open an account, and make the ledger if there is none; return what is wrong, by field."""
    plan = planned(fields.get("total_epsilon", ""), fields.get("total_delta", ""), unit, None, "")
    if plan.wrong:
        return {f"total_{field}": problem for field, problem in plan.wrong.items()}
    book = site.book() or Ledger(site.ledger)
    try:
        book.open_account(name, float(fields["total_epsilon"]), float(fields["total_delta"]), unit=unit)
    except TacitError as error:
        return {"total_epsilon": str(error)}
    return {}


def _applies(setting: str, data: DataSet) -> bool:
    if setting == "factors":
        return data.kind == RATINGS
    if setting == "blocks":
        return data.kind not in (TEXTS, TEXT_COLUMN)
    if setting == "words":
        return data.kind in (TEXTS, TEXT_COLUMN)
    return setting != "folder" or (data.kind == TEXTS and not data.path.endswith(".jsonl"))


def _widths(text: str) -> list[int]:
    """Return a list whose first entry stands for "valid", and then the widths; empty if the text is neither widths nor none."""
    parts = text.replace(" ", "").split(",")
    if parts == ["none"]:
        return [0]
    return [0, *map(int, parts)] if all(part.isdigit() and 0 < int(part) <= 10_000 for part in parts) else []


def _results(run: Run | None) -> dict[str, Any]:
    """Return what a simulation found, with the bars of a picture."""
    results = run.printed() if run is not None and run.state == DONE else {}
    if not results:
        return {}
    values = {f"epsilon {name}": error for name, error in results["errors"].items()} | results["references"]
    most = max(values.values()) or 1.0
    chosen = f"epsilon {results['epsilon']:g}"
    return {
        **results,
        "bars": [(name, error, round(100 * error / most, 1), name == chosen) for name, error in values.items()],
    }
