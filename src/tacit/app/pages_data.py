"""The first step: pick or upload a file, say what one row is, and state what is public about it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from tacit.app.datasets import CLICKS, COLUMN_KINDS, HOW, KINDS, RATINGS, ROLES, DataSet, answers_of, kinds_of, roles
from tacit.app.files import DATA_ENDINGS, UPLOADED, new_id, private_folder, safe_name
from tacit.app.limited import TimeoutExpired, run_limited
from tacit.app.security import FORM_TOKEN_HEADER, UPLOADS
from tacit.app.site import AppSite, expired, from_own_page, get, go, post
from tacit.app.uploads import FILE, UPLOAD
from tacit.data.schema import TableSchema
from tacit.errors import InvalidInputError, TacitError, words

DRAFT_SECONDS = 120
"""Most time for a draft, in which a page waits: it reads all rows once. Set by hand."""
MOST_ITEMS_LISTED = 200_000
"""Longest list of items that a page takes over; far above the catalogues of the reported data sets. Set by hand."""
LISTS = (".csv", ".csv.gz", ".tsv", ".parquet", ".txt")
SCHEMAS = (".toml", ".json")
HISTORIES = (RATINGS, CLICKS)


def routes(site: AppSite) -> list[BaseRoute]:
    """Return the routes of the data pages."""
    pages = DataPages(site)
    return [
        get(site, "/", pages.home),
        get(site, "/data", pages.choose),
        post(site, "/data/pick", pages.pick),
        Route(UPLOADS, pages.receive, methods=["POST"]),
        post(site, "/data/upload", pages.upload),
        get(site, "/data/{data}", pages.describe),
        post(site, "/data/{data}", pages.state),
        post(site, "/data/{data}/draft", pages.draft),
        post(site, "/data/{data}/items/upload", pages.upload_items),
        post(site, "/data/{data}/schema/upload", pages.upload_schema),
    ]


class DataPages:
    """The pages of data sets."""

    def __init__(self, site: AppSite) -> None:
        self.site = site

    def home(self, request: Request) -> Response:
        """Show where to begin, and what there is."""
        recent = [run for run in self.site.runner.runs() if run.spec["lane"] == "fit"][:5]
        return self.site.page(request, "home.html", data=self.site.datasets.all()[:5], runs=recent)

    def choose(self, request: Request, wrong: dict[str, str] | None = None, status: int = 200) -> Response:
        """List the files that can be picked."""
        root, at = request.query_params.get("root", "0"), request.query_params.get("at", "")
        roots = self.site.roots.folders
        listing = self.site.roots.listing(root, at) if roots else []
        above = str(Path(at).parent) if at else None
        return self.site.page(
            request,
            "choose.html",
            status,
            roots=[str(one) for one in roots],
            root=root,
            at=at,
            above="" if above == "." else above,
            listing=listing,
            data=self.site.datasets.all(),
            most=self.site.most_uploaded,
            endings=",".join(DATA_ENDINGS),
            wrong=wrong or {},
        )

    def pick(self, request: Request, fields: dict[str, str]) -> Response:
        """Take a file of the list as a data set."""
        try:
            added = self.site.datasets.add(self.site.roots.find(fields.get("root", ""), fields.get("path", "")))
        except TacitError as error:
            return self.choose(request, {"path": str(error)}, 422)
        return go(f"/data/{added.id}")

    async def receive(self, request: Request) -> Response:
        """Keep a file, and answer with the id by which a form will name it."""
        if not from_own_page(self.site, request, request.headers.get(FORM_TOKEN_HEADER, "")):
            return expired(self.site)
        try:
            return PlainTextResponse(await self.site.uploads.receive(request.stream()))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it: the browser has left

    def upload(self, request: Request, fields: dict[str, str]) -> Response:
        """Keep an uploaded file, readable by its owner only, as a data set."""
        place = private_folder(self.site.folder / UPLOADED) / new_id()
        try:
            with self.site.uploads.named_by(fields) as upload:
                path = private_folder(place) / safe_name(upload.name)
                upload.path.replace(path)
            added = self.site.datasets.add(path)
        except TacitError as error:
            shutil.rmtree(place, ignore_errors=True)
            return self.choose(request, {"file": str(error)}, 422)
        except BaseException:  # a full disk, say: what cannot be used is not kept
            shutil.rmtree(place, ignore_errors=True)
            raise
        return go(f"/data/{added.id}")

    def describe(self, request: Request) -> Response:
        """Show the form of a data set."""
        return self._form(request, self.site.data(request))

    def state(self, request: Request, fields: dict[str, str]) -> Response:
        """Keep what was stated; go on to the questions if it is complete."""
        data, answers = self.site.data(request), _without_file(fields)
        change = answers.pop("change", "")
        if change == "all":
            answers |= _for_all(data, answers)
        stated, wrong = self.site.datasets.state(data, answers, charged=self._is_charged(data))
        if change:  # the kind of data was changed, or one answer was given to many columns: the form is shown again
            return go(f"/data/{data.id}")
        if wrong:
            return self._form(request, stated, wrong, 422)
        return go(f"/data/{data.id}/question")

    def _is_charged(self, data: DataSet) -> bool:
        """Whether the account with the name of a data set has charges."""
        book = self.site.book()
        return book is not None and data.name in book.datasets() and bool(book.history(data.name))

    def draft(self, request: Request, fields: dict[str, str]) -> Response:
        """Fill the form from the rows, for the holder to correct; how it is known stays to be answered."""
        data = self._filled(request, fields)
        try:
            refused = data.unreadable(self.site.roots.readable)
            if refused:
                raise _no_draft(refused)
            filled = self._drafted_items(data) if data.kind in HISTORIES else self._drafted_columns(data)
        except TacitError as error:
            return self._form(request, data, {"draft": str(error)}, 422)
        # what was drafted must be answered for, whatever was answered before
        drafted = "how-items" if data.kind in HISTORIES else "how-"
        kept = {name: value for name, value in data.answers.items() if not name.startswith(drafted)}
        self.site.datasets.save(replace(data, answers={**kept, **filled, "drafted": "yes"}))
        return go(f"/data/{data.id}")

    def upload_items(self, request: Request, fields: dict[str, str]) -> Response:
        """Read the list of items from an uploaded file: a table's only column, or its column of items, or one item per line."""
        data = self._filled(request, fields)
        try:
            path = self._kept(data, fields, "items", LISTS)
            items = self._items(path, data.answers.get("item", "item"))
        except TacitError as error:
            return self._form(request, data, {"items": str(error)}, 422)
        return self._with(data, {"items": "\n".join(items)})

    def upload_schema(self, request: Request, fields: dict[str, str]) -> Response:
        """Fill the form of a table's columns from a schema file."""
        data = self._filled(request, fields)
        try:
            schema = TableSchema.load(self._kept(data, fields, "columns", SCHEMAS))
        except TacitError as error:
            return self._form(request, data, {"schema": str(error)}, 422)
        return self._with(data, answers_of(schema, data))

    def _with(self, data: DataSet, further: dict[str, str]) -> Response:
        self.site.datasets.save(replace(data, answers={**data.answers, **further}))
        return go(f"/data/{data.id}")

    def _filled(self, request: Request, fields: dict[str, str]) -> DataSet:
        """Return the data set with what the form holds now, so that filling a part of it loses nothing of the rest."""
        return replace(self.site.data(request), answers=_without_file(fields), ready=False)

    def _kept(self, data: DataSet, fields: dict[str, str], name: str, endings: tuple[str, ...]) -> Path:
        with self.site.uploads.named_by(fields) as upload:
            given = safe_name(upload.name, endings).lower()
            ending = next(ending for ending in sorted(endings, key=len, reverse=True) if given.endswith(ending))
            path = self.site.datasets.place(data) / f"uploaded-{name}{ending}"
            return upload.path.replace(path)

    def _drafted_columns(self, data: DataSet) -> dict[str, str]:
        """Draft a schema in a process of its own: reading a large table must not take the memory of the app."""
        output = self.site.datasets.place(data) / "draft.json"
        command = [*self.site.command, "tables", "schema", data.path, f"--output={output}", "--overwrite", "--json"]
        self._printed(command, "The table is too large for a draft: state the columns, or give a schema file.")
        draft = TableSchema.load(output)
        output.unlink()
        return answers_of(draft, data)

    def _drafted_items(self, data: DataSet) -> dict[str, str]:
        item = data.answers.get("item", "")
        if item not in data.columns:
            raise _no_draft("Choose the column of items before you list them.")
        items = self._items(Path(data.path), item)
        items.sort(key=lambda one: (not one.isdigit(), int(one) if one.isdigit() else 0, one))
        return {"items": "\n".join(items)}

    def _items(self, path: Path, column: str) -> list[str]:
        """Return the items of a file, which a process with limits reads: a small file can unpack to a large table."""
        command = [sys.executable, "-m", "tacit.app.items", str(path), column, str(MOST_ITEMS_LISTED)]
        listed: list[str] = self._printed(
            command, "The file is too large: list the items as a range, or in a text file."
        )
        return listed

    def _printed(self, command: Sequence[str], too_long: str) -> Any:
        """Return what a command prints as JSON; raise with its error."""
        try:
            done = run_limited(command, memory=self.site.runner.memory, seconds=DRAFT_SECONDS)
        except TimeoutExpired:
            raise _no_draft(too_long) from None
        try:
            printed = json.loads(done.stdout)
        except ValueError:
            printed = {}
        if done.returncode:
            told = printed.get("error", {}) if isinstance(printed, dict) else {}
            raise _no_draft(str(told.get("message") or "The file needs more memory than a run may use, or is damaged."))
        return printed

    def _form(
        self, request: Request, data: DataSet, wrong: dict[str, str] | None = None, status: int = 200
    ) -> Response:
        return self.site.page(
            request,
            "describe.html",
            status,
            data=data,
            answers=_suggested(data),
            kinds={kind: KINDS[kind] for kind in kinds_of(data)},
            column_kinds=COLUMN_KINDS,
            how=HOW,
            file=Path(data.path).name,
            labels=_labels(data),
            same=next((one for one in self.site.datasets.all() if one.path == data.path and one.id < data.id), None),
            lists=",".join(LISTS),
            schemas=",".join(SCHEMAS),
            wrong=wrong or {},
        )


def _suggested(data: DataSet) -> dict[str, str]:
    """Return the answers, with columns of ratings chosen by their names where none was chosen."""
    answers = dict(data.answers)
    if data.kind in HISTORIES:
        suggested = roles(data.columns)
        for role in ROLES:
            answers.setdefault(role, suggested.get(role, ""))
    answers.setdefault("name", data.name)
    return answers


def _without_file(fields: dict[str, str]) -> dict[str, str]:
    """Return the answers of a form that may also name a file."""
    return {name: value for name, value in fields.items() if name not in (FILE, UPLOAD)}


def _labels(data: DataSet) -> dict[str, str]:
    """Return what the list of problems says before those whose words do not name their field."""
    labels = {"how-range": "Scale of the ratings", "how-items": "List of items"}
    for place, name in enumerate(data.columns):
        labels |= {f"kind-{place}": name, f"how-{place}": name}
    return labels


def _for_all(data: DataSet, answers: Mapping[str, str]) -> dict[str, str]:
    """Return the answers of the line "for all columns", for each column that has none of its own."""
    filled = {}
    for place in range(len(data.columns)):
        if not answers.get(f"kind-{place}") or answers.get(f"kind-{place}") == answers.get("kind-all"):
            for field in ("kind", "low", "high", "categories", "missing", "how"):
                given = answers.get(f"{field}-all", "")
                if given and not answers.get(f"{field}-{place}"):
                    filled[f"{field}-{place}"] = given
    return filled


def _no_draft(fix: str) -> InvalidInputError:
    return InvalidInputError("a file that can be read for this form", words("another one"), fix)
