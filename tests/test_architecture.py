"""The import directions of the design: arrows point one way, and the start is quick."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tacit"
FOUNDATION = {"errors", "validation"}

# who may import whom (every package may import itself and the foundation)
ALLOWED = {
    "errors": set(),
    "validation": set(),
    "privacy": set(),
    "data": set(),
    "measure": set(),
    "channel": {"privacy"},
    "factor": {"channel", "privacy", "data", "measure"},
    "perturb": {"factor", "channel", "privacy", "data", "measure"},
    "neural": {"factor", "channel", "privacy", "data", "measure"},
    "registry": {"factor", "perturb", "neural"},
    "parties": {"registry", "factor", "perturb", "neural", "channel", "privacy", "data", "measure"},
    "report": {"factor", "perturb", "neural", "channel", "privacy", "data", "measure"},
    "cli": {"registry", "report", "parties", "factor", "perturb", "neural", "channel", "privacy", "data", "measure"},
}


def imports(text):
    """Return the parts of tacit that a module imports, wherever in the module it does."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module] if node.module != "tacit" else [f"tacit.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("tacit.")}
    return found


def forbidden(package, text):
    return imports(text) - ALLOWED[package] - FOUNDATION - {package, "__version__"}


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_arrows_point_one_way(path):
    package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert package in ALLOWED, f"{package} has no place in the architecture: give it one"
    assert not forbidden(package, path.read_text(encoding="utf-8"))


def test_a_wrong_arrow_is_found():
    assert forbidden("privacy", "from tacit.channel import Sum") == {"channel"}
    assert forbidden("data", "def f():\n    import tacit.privacy.noise") == {"privacy"}
    assert forbidden("channel", "from tacit import factor") == {"factor"}
    assert not forbidden("cli", "from tacit.factor.moments import PrivateMoments")


def test_no_relative_imports():
    """They would escape the check above."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


HEAVY = ("numpy", "scipy", "sklearn", "numba", "dp_accounting", "matplotlib", "polars", "torch", "randomgen", "jinja2")


@pytest.mark.parametrize("statement", ["import tacit", "import tacit.cli.main"])
def test_starting_imports_nothing_heavy(statement):
    code = f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_accounting_alone_does_not_import_dp_accounting():
    """Its import takes seconds; plain Gaussian accounting has a closed form and does without."""
    code = "import sys, tacit; tacit.gaussian_epsilon(1.0, 1e-5); print('dp_accounting' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "False"


def test_every_public_name_resolves():
    import tacit

    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
    assert tacit.__version__
    with pytest.raises(AttributeError, match="no attribute"):
        _ = tacit.nonsense
