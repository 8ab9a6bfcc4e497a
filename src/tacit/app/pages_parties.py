"""Several organisations: this one's identities, the review of a job, consent, and taking part."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute

from tacit.app.files import is_id, new_id, private_folder, write_private
from tacit.app.limited import TimeoutExpired, run_limited
from tacit.app.pages_question import open_account
from tacit.app.questions import command_line
from tacit.app.site import AppSite, NoSuchPage, get, go, post
from tacit.app.supervise import now
from tacit.errors import InvalidInputError, TacitError, parameter, words
from tacit.parties.identity import CERTIFICATE_FILE, Identity, check_name
from tacit.parties.job import Job

JOB = "job.toml"
LARGEST_JOB = 4 << 20
"""Most bytes of an uploaded job: 4 MB, as for any form; a job has a few kilobytes."""
REVIEW_SECONDS = 120
"""A review rehearses the model on invented rows."""


def routes(site: AppSite) -> list[BaseRoute]:
    """Return the routes of the pages about parties."""
    pages = PartyPages(site)
    return [
        get(site, "/parties", pages.show),
        post(site, "/parties/identity", pages.make_identity),
        get(site, "/parties/certificate/{name}", pages.certificate),
        post(site, "/parties/job/upload", pages.upload),
        get(site, "/parties/job/{job}", pages.review),
        post(site, "/parties/job/{job}/join", pages.join),
    ]


class PartyPages:
    """The pages about parties."""

    def __init__(self, site: AppSite) -> None:
        self.site = site
        self.identities = private_folder(site.folder / "identities")
        self.jobs = private_folder(site.folder / "jobs")

    def show(
        self, request: Request, wrong: dict[str, str] | None = None, status: int = 200, name: str = ""
    ) -> Response:
        """Show identities, jobs and runs."""
        jobs, unreadable = self._kept_jobs()
        runs = [run for run in self.site.runner.runs() if run.spec["lane"] == "parties"]
        return self.site.page(
            request,
            "parties.html",
            status,
            identities=self._identities(),
            damaged=self._damaged_identities(),
            folder=self.identities,
            jobs=jobs,
            unreadable=unreadable,
            runs=runs,
            name=name,
            wrong=wrong or {},
        )

    def make_identity(self, request: Request, fields: dict[str, str]) -> Response:
        """Make this organisation's identity."""
        name = fields.get("name", "")
        try:
            if name.startswith("."):  # a name is the name of a folder here
                raise InvalidInputError(
                    "a name that begins with a letter or a digit", parameter(name), "Choose another."
                )
            Identity.create(check_name(name)).write(private_folder(self.identities / name))
        except TacitError as error:
            return self.show(request, {"name": str(error)}, 422, name)
        return go("/parties")

    def certificate(self, request: Request) -> Response:
        """Return a certificate, to be sent to the others."""
        for identity in self._identities():
            if identity.name == request.path_params["name"]:
                path = self.identities / identity.name / CERTIFICATE_FILE
                return FileResponse(path, filename=f"{identity.name}.pem", media_type="application/octet-stream")
        raise NoSuchPage

    def upload(self, request: Request, fields: dict[str, str]) -> Response:
        """Keep a job that was uploaded, if its seal is right."""
        try:
            with self.site.uploads.named_by(fields) as upload, upload.path.open("rb") as file:
                content = file.read(LARGEST_JOB)
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError:
                raise InvalidInputError(
                    "a job file", words("another file"), "Choose the job.toml that you were given."
                ) from None
            Job.parse(text, "the job")
        except TacitError as error:
            return self.show(request, {"file": str(error)}, 422)
        place = private_folder(self.jobs / new_id())
        write_private(place / JOB, content)
        return go(f"/parties/job/{place.name}")

    def review(
        self, request: Request, wrong: dict[str, str] | None = None, status: int = 200, **fields: str
    ) -> Response:
        """Show who takes part, what would leave, and what it would guarantee; nothing is sent."""
        from tacit.parties.consent import NO_LEDGER

        path = self._job(request)
        job, reviewed = Job.read(path), self._reviewed(path)
        mine = [one for one in self._identities() if one.fingerprint in {party.fingerprint for party in job.parties}]
        return self.site.page(
            request,
            "job.html",
            status,
            job=job,
            id=path.parent.name,
            lines=[line for line in reviewed["text"][1:] if line != NO_LEDGER],  # the form below names the account
            private=reviewed["has_guarantee"],
            mine=mine,
            data=self.site.datasets.all(),
            fields=fields,
            wrong=wrong or {},
        )

    def join(self, request: Request, fields: dict[str, str]) -> Response:
        """Take part in a job to which a person has agreed."""
        path = self._job(request)
        job, private = Job.read(path), self._reviewed(path)["has_guarantee"]
        data = self.site.datasets.get(fields.get("data", ""))
        party, wrong = fields.get("party", ""), {}
        if party not in {one.name for one in self._identities()} & {one.name for one in job.parties}:
            wrong["party"] = "Choose the identity of this organisation that the job names."
        if data is None:
            wrong["data"] = "Choose the data set with this organisation's records."
        elif refused := data.unreadable(self.site.roots.readable):
            wrong["data"] = refused
        if fields.get("compared") != "yes":
            wrong["compared"] = "Compare the fingerprints with the other parties first, by telephone."
        if fields.get("agreed") != "yes":
            wrong["agreed"] = "Nothing is sent without consent."
        if private and data is not None and not wrong:
            book = self.site.book()
            if book is None or data.name not in book.datasets():
                wrong |= open_account(self.site, data.name, fields, data.unit)
        if wrong:
            return self.review(request, wrong, 422, **fields)
        assert data is not None
        arguments = [
            "parties",
            "join",
            str(path),
            f"--as={party}",
            f"--data={data.path}",
            f"--identity={self.identities / party}",
            *([f"--ledger={self.site.ledger}", f"--dataset={data.name}"] if private else []),
            "--yes",
            "--progress=lines",
            "--json",
            "--output={output}",
        ]
        name = self.site.runner.submit(
            "parties",
            f"{job.name}, as {party}",
            [*self.site.command, *arguments],
            account=data.name if private else "",
            lane="parties",
            reads=data.reads,
            folders=[str(folder) for folder in self.site.roots.readable],
            consent={"time": now(), "digest": job.digest, "party": party},
            released=f"model/{job.model}.tacit" if private else "",
            line=command_line(arguments, f"tacit-{job.name}"),
            code="# Several organisations: each runs the command above.",
        )
        return go(f"/runs/{name}")

    def _kept_jobs(self) -> tuple[list[tuple[str, Job]], list[tuple[str, str]]]:
        """Return the jobs that were uploaded, newest first, and those that cannot be read any more, with the reasons.

        A certificate in a job expires; a file may be damaged. The page must stay usable for the others.
        """
        jobs, unreadable = [], []
        for folder in sorted(self.jobs.iterdir(), reverse=True):
            try:
                jobs.append((folder.name, Job.read(folder / JOB)))
            except TacitError as error:
                unreadable.append((folder.name, str(error)))
        return jobs, unreadable

    def _job(self, request: Request) -> Path:
        name = request.path_params["job"]
        path: Path = self.jobs / name / JOB
        if not is_id(name) or not path.is_file():
            raise NoSuchPage
        return path

    def _identities(self) -> list[Identity]:
        """Return the identities that can be used; a damaged one must not close the page for the others."""
        identities = []
        for folder in sorted(self.identities.iterdir()):
            with suppress(TacitError):
                identities.append(Identity.read(folder))
        return identities

    def _damaged_identities(self) -> list[str]:
        usable = {identity.name for identity in self._identities()}
        return [folder.name for folder in sorted(self.identities.iterdir()) if folder.name not in usable]

    def _reviewed(self, path: Path) -> dict[str, Any]:
        """Return what `tacit parties review` says, which is kept: it takes a moment, and a job never changes."""
        kept = path.with_name("review.json")
        if not kept.exists():
            command = [*self.site.command, "parties", "review", str(path), "--json"]
            try:
                done = run_limited(command, memory=self.site.runner.memory, seconds=REVIEW_SECONDS)
            except TimeoutExpired:
                raise InvalidInputError(
                    f"a job that can be reviewed in {REVIEW_SECONDS} s", words("a larger one"), "Try again later."
                ) from None
            values = json.loads(done.stdout or b"{}")
            if done.returncode:
                told = values.get("error", {}).get("message", "the job cannot be read")
                raise InvalidInputError("a job that can be reviewed", words(str(told)), "Ask for the file again.")
            write_private(kept, done.stdout)
        reviewed: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return reviewed
