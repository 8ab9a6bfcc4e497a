"""The import directions of the design: arrows point one way, packages have no cycles, and the start is quick."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tacit"
FOUNDATION = {"errors", "json_text", "validation", "progress"}
MODELS = {"factor", "neural", "synthetic", "perturb"}
BASE = {"privacy", "channel", "data", "measure", "estimators"}

# who may import whom (every package may import itself and the foundation)
ALLOWED = {
    "errors": set(),
    "validation": set(),
    "json_text": set(),
    "progress": set(),
    "privacy": set(),
    "data": set(),
    "channel": {"privacy"},
    "testing": {"channel", "privacy"},
    "measure": {"channel", "privacy"},
    "estimators": {"channel", "privacy", "measure", "data"},
    "factor": BASE,
    "neural": BASE,
    "synthetic": BASE | {"factor"},
    "perturb": BASE | {"factor", "synthetic"},
    "parties": BASE | MODELS,
    "cluster": BASE | MODELS,
    "report": BASE | MODELS | {"cluster"},
    "reproduce": BASE | MODELS | {"parties"},
    "audit": BASE | MODELS | {"testing", "report"},
    "app": BASE | MODELS | {"parties", "report"},
    "cli": BASE | MODELS | {"parties", "cluster", "report", "app", "reproduce", "audit"},
}
# within factor: what each part may import of the others
WITHIN_FACTOR = {
    "arrays": set(),
    "kernels": {"arrays"},
    "extrapolation": set(),
    "small_solves": {"arrays", "kernels"},
    "row_table": {"arrays", "kernels"},
    "noisy_moments": {"arrays", "kernels", "small_solves"},
    "moments": {"noisy_moments"},
    "svd": {"arrays", "kernels", "row_table", "noisy_moments"},
    "nmf": {"arrays", "kernels", "row_table", "extrapolation", "noisy_moments", "svd"},
    "ratings": {"arrays", "kernels", "small_solves", "noisy_moments", "nmf"},
    "implicit": {"arrays", "kernels", "noisy_moments", "ratings"},
    "coupled": {"arrays", "kernels", "small_solves", "extrapolation", "noisy_moments"},
}
# the tables that find a model by its name, whatever package it is in; nothing else may name a module in a string
REGISTRIES = {"tacit.estimators.registry", "tacit.estimators.engine"}
DOTTED = re.compile(r"tacit(?:\.[a-z_]\w*)+(?:[.:][A-Z]\w*)?")
IN_CODE = re.compile(r"(?:from|import) (tacit(?:\.[a-z_]\w*)+)")


def module_of(path):
    return ".".join(["tacit", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


TEXTS = {module_of(path): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}


def docstrings(tree):
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def typing_only(tree):
    """Return the nodes under `if TYPE_CHECKING`, which are never run."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    return {id(node) for block in blocks for statement in block.body for node in ast.walk(statement)}


def imports(text, modules, *, typing=True, strings=True, code=True):
    """Return the modules of tacit that a text imports, anywhere in it, or names in a string that is no docstring.

    A string names a module if it is nothing but a dotted name, or `code` that imports it.
    """
    tree = ast.parse(text)
    skipped, prose, found = (set() if typing else typing_only(tree)), docstrings(tree), set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "tacit":
            # `from package import module` imports that module; `from package import name` its __init__
            found |= {
                f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in modules else node.module for a in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("tacit.")}
        elif strings and isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            named = [node.value] if DOTTED.fullmatch(node.value) else IN_CODE.findall(node.value) if code else []
            found |= {re.split(r"[.:](?=[A-Z])", name)[0] for name in named}
    return found - {"tacit"}


def part(module):
    return module.split(".")[1]


def forbidden(module, text, modules=frozenset()):
    """Return the packages that a module imports and may not."""
    own = part(module)
    named = imports(text, modules, strings=module not in REGISTRIES)
    wrong = {part(name) for name in named} - ALLOWED[own] - FOUNDATION - {own, "__version__"}
    inside = module.split(".")[2:3]
    if own == "factor" and inside:
        reached = {name.split(".")[2] for name in named if part(name) == "factor" and name.count(".") > 1}
        wrong |= {f"factor.{name}" for name in reached - WITHIN_FACTOR[inside[0]] - set(inside)}
    return wrong


def cycles(texts):
    """Return, for every package, the cycles among its modules and sub-packages.

    A sub-package counts as one: what any of its modules imports, it imports. The `__init__` of the package itself only
    gathers names for others, and is left out; so is code that another process runs.
    """
    edges = {}
    for module, text in texts.items():
        for target in imports(text, texts, typing=False, strings=module not in REGISTRIES, code=False):
            ours, theirs = module.split("."), target.split(".")
            shared = 0
            while shared < min(len(ours), len(theirs)) and ours[shared] == theirs[shared]:
                shared += 1
            if shared < len(ours) and shared < len(theirs):
                level = ".".join(ours[:shared])
                edges.setdefault(level, {}).setdefault(ours[shared], set()).add(theirs[shared])
    found = []
    for level, graph in edges.items():
        done, path = set(), []

        def visit(node, level=level, graph=graph, done=done, path=path):
            if node in path:
                found.append(f"{level}: " + " -> ".join([*path[path.index(node) :], node]))
            elif node not in done:
                path.append(node)
                for following in sorted(graph.get(node, ())):
                    visit(following)
                done.add(path.pop())

        for node in sorted(graph):
            visit(node)
    return found


@pytest.mark.parametrize("module", [module for module in TEXTS if module != "tacit"])
def test_arrows_point_one_way(module):
    assert part(module) in ALLOWED, f"{part(module)} has no place in the architecture: give it one"
    assert not forbidden(module, TEXTS[module], TEXTS)


def test_a_wrong_arrow_is_found():
    assert forbidden("tacit.privacy.x", "from tacit.channel import Sum") == {"channel"}
    assert forbidden("tacit.data.x", "def f():\n    import tacit.privacy.noise") == {"privacy"}
    assert forbidden("tacit.channel.x", "from tacit import factor", {"tacit.factor"}) == {"factor"}
    assert forbidden("tacit.factor.svd.x", "from tacit.factor.nmf.program import f") == {"factor.nmf"}
    assert forbidden("tacit.factor.noisy_moments.x", "from tacit.factor.ratings.als import f") == {"factor.ratings"}
    assert not forbidden("tacit.cli.x", "from tacit.factor.moments import PrivateMoments")


def test_a_wrong_arrow_in_a_string_is_found():
    assert forbidden("tacit.estimators.x", "HOME = {'NMF': 'tacit.factor.nmf.estimator'}") == {"factor"}
    assert forbidden("tacit.channel.x", "load('tacit.neural.classifier:Classifier')") == {"neural"}
    assert forbidden("tacit.privacy.x", "run('-c', 'import sys; from tacit.cli.main import main')") == {"cli"}
    assert not forbidden("tacit.estimators.x", "def f():\n    '''See `tacit.factor.nmf`.'''")
    assert not forbidden("tacit.estimators.x", "raise E('a fit within tacit.parties')")
    for registry in REGISTRIES:
        assert not forbidden(registry, "MODELS = {'Table': 'tacit.synthetic.private_table'}")


PACKAGES = sorted(module_of(path) for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


def importers(package):
    """Return the packages that the tables allow to import a package, or a part of factor."""
    if package.count(".") == 1:
        return {other for other, allowed in ALLOWED.items() if part(package) in allowed}
    own = package.split(".")[-1]
    return {other for other, allowed in WITHIN_FACTOR.items() if own in allowed}


def stated_importers(text):
    """Return the packages that a docstring says may import it, or None if it does not say."""
    stated = re.search(
        r"[Mm]ay\s+be\s+imported\s+by\s+(.*?)\.(?:\s|$)", ast.get_docstring(ast.parse(text)) or "", re.DOTALL
    )
    if stated is None:
        return None
    named = set(re.findall(r"`(\w+)`", stated[1]))
    return set(ALLOWED) - FOUNDATION - named if stated[1].startswith("all packages except") else named


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_may_import_it(package):
    stated = stated_importers(TEXTS[package])
    assert stated is not None, f"the docstring of {package} does not say what may import it"
    if package.count(".") == 1:
        assert stated - {part(package)} == importers(package)
    elif package.startswith("tacit.factor.") and package.count(".") == 2:
        assert stated == importers(package)


def test_a_wrong_statement_of_importers_is_found():
    assert stated_importers('"""Rows."""') is None
    assert stated_importers('"""Rows.\n\nMay be imported by `cli` and\n`app`.\n"""') == {"cli", "app"}
    assert stated_importers('"""May be imported by nothing else."""') == set()
    everyone = stated_importers('"""May be imported by all packages except `data`."""')
    assert "data" not in everyone
    assert "cli" in everyone


@pytest.mark.slow
def test_no_cycles():
    assert cycles(TEXTS) == []


@pytest.mark.slow
def test_a_planted_cycle_is_found():
    between = {
        "tacit.factor.svd.pca": "from tacit.factor.nmf.program import f",
        "tacit.factor.nmf.start": "def f():\n    from tacit.factor import svd",
        "tacit.factor.nmf.program": "",
        "tacit.factor.svd": "",
    }
    assert cycles(between) == ["tacit.factor: nmf -> svd -> nmf"]
    through_three = {
        "tacit.factor.coupled.plain.a": "from tacit.factor.coupled.private.b import f",
        "tacit.factor.coupled.private.b": "x = 'tacit.factor.coupled.local.c'",
        "tacit.factor.coupled.local.c": "import tacit.factor.coupled.plain.d",
    }
    assert cycles(through_three) == ["tacit.factor.coupled: local -> plain -> private -> local"]
    assert cycles(
        {**TEXTS, "tacit.privacy.x": "from tacit.channel.x import f", "tacit.channel.x": "import tacit.privacy.x"}
    )
    for_typing = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tacit.factor.nmf import f"
    assert not cycles({"tacit.factor.svd.x": for_typing, "tacit.factor.nmf.y": "import tacit.factor.svd"})


@pytest.mark.slow
def test_no_relative_imports():
    """They would escape the checks above."""
    for module, text in TEXTS.items():
        for node in ast.walk(ast.parse(text)):
            assert not (isinstance(node, ast.ImportFrom) and node.level), module


HEAVY = (
    "numpy",
    "scipy",
    "sklearn",
    "numba",
    "dp_accounting",
    "matplotlib",
    "polars",
    "torch",
    "randomgen",
    "jinja2",
    "starlette",
)


@pytest.mark.parametrize("statement", ["import tacit", "import tacit.cli.main"])
def test_starting_imports_nothing_heavy(statement):
    code = f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "families"),
    [("from tacit import PrivateNMF", {"nmf", "svd"}), ("import tacit.report.coupled", {"coupled"})],
)
def test_a_model_is_imported_without_the_other_models(statement, families):
    """A command fits one model; all of them together would take half a second more to import."""
    code = f"import sys; {statement}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    packages = {"coupled", "implicit", "nmf", "ratings", "svd"}
    assert {name.split(".")[2] for name in loaded if name.startswith("tacit.factor.")} & packages == families


@pytest.mark.slow
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


def unexplained_numbers(text):
    """Return the names of numeric constants of a module that have neither a docstring nor a comment."""

    def numeric(value):
        if isinstance(value, ast.Tuple | ast.List | ast.Dict):
            parts = value.values if isinstance(value, ast.Dict) else value.elts
            return bool(parts) and all(map(numeric, parts))
        if isinstance(value, ast.BinOp):
            return numeric(value.left) and numeric(value.right)
        if isinstance(value, ast.UnaryOp):
            return numeric(value.operand)
        return isinstance(value, ast.Constant) and type(value.value) in (int, float)

    lines, unexplained = text.split("\n"), []
    body = ast.parse(text).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not numeric(node.value):
            continue
        described = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        beside = lines[max(node.lineno - 2, 0) : node.end_lineno]
        if not described and not beside[0].startswith("#") and not any("#" in line for line in beside[1:]):
            unexplained.append(ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target))
    return unexplained


@pytest.mark.slow
def test_every_constant_says_what_it_means():
    assert {module: names for module, text in TEXTS.items() if (names := unexplained_numbers(text))} == {}


def test_a_number_without_meaning_is_found():
    assert unexplained_numbers("A = 3\nB, C = 0.5, (1, 2)\n") == ["A", "(B, C)"]
    assert unexplained_numbers('\nA = 3\n"""Rows."""\nB = 2  # columns\n# of a page\nC = {"a": -1}\n') == []


def repeated_classes(texts):
    """Return the class names that stand in more than one module, with the modules."""
    places = {}
    for module, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    return {name: modules for name, modules in places.items() if len(modules) > 1}


@pytest.mark.slow
def test_a_class_name_means_one_thing():
    assert repeated_classes(TEXTS) == {}


def test_a_repeated_class_name_is_found():
    assert repeated_classes({"a": "class Journal: ...", "b": "class Journal: ...\nclass Pair: ..."}) == {
        "Journal": ["a", "b"]
    }
