"""The pages of the API: one per public package, with one page for every public name.

The names are read from the packages, so a new public name is documented without a change here. A name that several packages
export is documented at the first of them.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = {
    "tacit": "Estimators, guarantees and the ledger",
    "tacit.data": "Example data, readers and schemas",
    "tacit.factor": "Models",
    "tacit.synthetic": "Tables with a guarantee",
    "tacit.perturb": "Perturbed tables, without a guarantee",
    "tacit.neural": "Private networks",
    "tacit.measure": "What was kept",
    "tacit.measure.attacks": "What attackers recover",
    "tacit.measure.ksdp": "Does a document's presence show",
    "tacit.report": "What the commands do, as functions",
    "tacit.privacy": "Releases, accounting, noise",
    "tacit.privacy.ledger": "Accounts of a ledger",
    "tacit.privacy.schedules": "Many releases for one budget",
    "tacit.privacy.vocabulary": "Words out of a budget",
    "tacit.privacy.published": "Formulas of the papers",
    "tacit.channel": "Programs and channels",
    "tacit.channel.secure_sum": "Sums among many clients",
    "tacit.parties": "Several organisations",
    "tacit.cluster": "Clusters",
    "tacit.audit": "Audits of guarantees",
    "tacit.testing": "Checks for your own programs",
    "tacit.errors": "Errors and warnings",
}
"""Public packages, in the order of the documentation."""


def public_names(package: str) -> list[str]:
    """Return the names that a package exports, or the public classes and functions that a module without a list defines."""
    module = import_module(package)
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == package
        and (package != "tacit.errors" or (inspect.isclass(value) and issubclass(value, Exception)))
    )


def documented() -> dict[str, list[str]]:
    """Return the names to document at each package that can be imported here."""
    seen: set[int] = set()
    pages: dict[str, list[str]] = {}
    for package in PACKAGES:
        try:
            module = import_module(package)
        except ModuleNotFoundError as missing:
            if missing.name != package:
                raise
            continue
        names = []
        for name in public_names(package):
            value: Any = getattr(module, name)
            if id(value) not in seen:
                seen.add(id(value))
                names.append(name)
        if names:
            pages[package] = names
    return pages


def page(package: str, names: list[str]) -> str:
    """Return the page of one package, as reStructuredText."""
    module = import_module(package)
    groups: dict[str, list[str]] = {"Classes": [], "Functions": [], "Values": []}
    for name in names:
        value = getattr(module, name)
        kind = "Classes" if inspect.isclass(value) else "Functions" if callable(value) else "Values"
        groups[kind].append(name)
    title = f"{package}: {PACKAGES[package][0].lower()}{PACKAGES[package][1:]}"
    lines = [
        title,
        "=" * len(title),
        "",
        f".. automodule:: {package}",
        "   :no-members:",
        "",
        f".. currentmodule:: {package}",
        "",
    ]
    for kind, members in groups.items():
        if members:
            lines += [kind, "-" * len(kind), "", ".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
            lines += [f"   {name}" for name in members] + [""]
    return "\n".join(lines)


def write_pages(folder: Path) -> None:
    """Write the pages and their index; files that would not change are left alone, so that a second build is fast."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = documented()
    index = [
        "API reference",
        "=============",
        "",
        "Every public name. Private estimators state their guarantee under Privacy.",
        "",
    ]
    index += [".. toctree::", "   :maxdepth: 1", "", *(f"   {package}" for package in pages), ""]
    texts = {"index": "\n".join(index)} | {package: page(package, names) for package, names in pages.items()}
    names = {f"{package}.{name}" for package, members in pages.items() for name in members}
    for file in (folder / "generated").glob("*.rst"):
        if file.stem not in names:
            file.unlink()
    for file in folder.glob("*.rst"):
        if file.stem not in texts:
            file.unlink()
    for name, text in texts.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
