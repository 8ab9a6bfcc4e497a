"""Audits: attacks on what a finished run fitted, as lower bounds beside its guarantee; nothing is charged."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tacit.app.files import read_json
from tacit.app.pages_runs import VALUES
from tacit.app.questions import QUESTIONS, command_line
from tacit.app.runner import DONE, Run
from tacit.app.site import AppSite, NoSuchPage, get, go, post

AUDIT = "audit"
NOT_AUDITED = ("--ledger=", "--dataset=", "--blocks=", "--resident=", "--workers=", "--json", "--vocabulary=paid")
"""Options of a run that the audited command has not: an audit charges nothing, and reads the data at once."""


def routes(site: AppSite) -> list[BaseRoute]:
    """Return the routes of the audit pages."""
    pages = AuditPages(site)
    return [get(site, "/audits", pages.show), post(site, "/audits/{run}", pages.start)]


class AuditPages:
    """The pages of audits."""

    def __init__(self, site: AppSite) -> None:
        self.site = site

    def show(self, request: Request) -> Response:
        """List past audits with their verdicts, and the runs that can be audited."""
        runs = self.site.runner.runs()
        audits = [(run, self._verdict(run)) for run in runs if run.spec["kind"] == AUDIT]
        return self.site.page(request, "audits.html", audits=audits, runs=[run for run in runs if _can_be_audited(run)])

    def start(self, request: Request, fields: dict[str, str]) -> Response:
        """Audit what a run fitted: the same command is read, and attacked with other noise."""
        run = self.site.runner.get(request.path_params["run"])
        if run is None or not _can_be_audited(run):
            raise NoSuchPage
        arguments = audit_of(run, self.site)
        name = self.site.runner.submit(
            AUDIT,
            f"Audit of {run.title}",
            [*self.site.command, *arguments],
            lane=AUDIT,
            data=run.spec.get("data", ""),
            reads=run.spec.get("reads", []),
            folders=[str(folder) for folder in self.site.roots.readable],
            line=command_line(arguments, "tacit-audit"),
            code="# tacit.audit.audit(estimator, data) does the same in Python.",
        )
        return go(f"/runs/{name}")

    def _verdict(self, run: Run) -> dict[str, Any]:
        return (read_json(run.output / VALUES) or {}) if run.state == DONE else {}


def audit_of(run: Run, site: AppSite) -> list[str]:
    """Return the arguments of `tacit` that audit the command of a run; the ledger notes that there was an audit."""
    audited = [part for part in run.spec["command"][len(site.command) :] if not part.startswith(NOT_AUDITED)]
    return [AUDIT, "--json", "--output={output}", f"--ledger={site.ledger}", f"--dataset={run.account}", *audited]


def _can_be_audited(run: Run) -> bool:
    question = QUESTIONS.get(run.spec["kind"])
    paid = "--vocabulary=paid" in run.spec["command"]
    return run.state == DONE and question is not None and question.private and not paid
