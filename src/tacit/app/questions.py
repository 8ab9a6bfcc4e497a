"""The questions that a person can ask of a data set: their settings, and the command and the code that answer them."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.app.datasets import (
    CLICKS,
    COUPLED,
    MATRIX,
    OF_CLICKS,
    RATINGS,
    TABLE,
    TEXT_COLUMN,
    TEXTS,
    DataSet,
    DataSets,
)
from tacit.app.files import write_private
from tacit.data.schema import CategoryColumn, IntegerColumn, NumberColumn, TableSchema

Values = Mapping[str, str]
IN_PYTHON = "In Python, tacit.load reads the file; its report shows what the model has found."


@dataclass(frozen=True)
class FormField:
    """One field of the form: a whole number from `least` to `most`, or one of `choices`, or a text; shown on demand if `rare`."""

    name: str
    label: str
    default: str
    help: str = ""
    least: int | None = None
    most: int | None = None
    choices: tuple[tuple[str, str], ...] = ()
    rare: bool = False

    def problem(self, text: str) -> str:
        """Return what is wrong with a value; empty if nothing is."""
        if self.choices:
            return "" if text in dict(self.choices) else "Choose one of the list."
        if self.least is None:
            return ""
        if not text.isdigit() or not self.least <= int(text) <= (self.most or int(text)):
            upper = f" to {self.most}" if self.most else " or more"
            return f"Give a whole number: {self.least}{upper}."
        return ""


@dataclass(frozen=True)
class Context:
    """What a command is made from: the data set and its files, the values of the form, and the ledger."""

    data: DataSet
    store: DataSets
    values: Values
    ledger: Path

    @property
    def spending(self) -> list[str]:
        """The options of every private command."""
        return [
            f"--epsilon={float(self.values['epsilon'])!r}",
            f"--delta={float(self.values['delta'])!r}",
            f"--ledger={self.ledger}",
            f"--dataset={self.data.name}",
            "--json",
        ]

    @property
    def budget(self) -> str:
        """The parameters of every private fit in Python."""
        epsilon, delta = float(self.values["epsilon"]), float(self.values["delta"])
        return (
            f"epsilon={epsilon!r}, delta={delta!r}, "
            f"ledger=Ledger({str(self.ledger)!r}, create=False), dataset={self.data.name!r}"
        )

    @property
    def in_parts(self) -> bool:
        """Whether the file is read in parts."""
        return int(self.values.get("blocks", "1")) > 1

    @property
    def blocks(self) -> list[str]:
        """The options for a file that is read in parts, one at a time."""
        return [f"--blocks={int(self.values['blocks'])}", "--resident=1", "--workers=1"] if self.in_parts else []

    @property
    def catalogue(self) -> Path:
        """The list of items, as it is now."""
        return self.store.frozen(self.store.catalogue(self.data))

    @property
    def schema_file(self) -> Path:
        """What is public about the columns, as it is now."""
        return self.store.frozen(self.store.schema(self.data))

    def schema(self) -> TableSchema:
        """Return what is public about the columns."""
        return TableSchema.load(self.store.schema(self.data))

    def numbers(self) -> dict[str, NumberColumn | IntegerColumn]:
        """Return the columns of numbers without empty cells, which a model of numbers uses."""
        columns = self.schema().columns.items()
        return {
            name: spec for name, spec in columns if isinstance(spec, NumberColumn | IntegerColumn) and not spec.missing
        }

    def chosen(self, beside: str = "") -> list[str]:
        """The option that names the columns of numbers, if the table has others than these and `beside`."""
        if self.data.kind != TABLE or set(self.data.columns) == {*self.numbers(), beside} - {""}:
            return []
        return [f"--columns={','.join(self.numbers())}"]


@dataclass(frozen=True)
class Question:
    """A question, and how it is answered.

    Attributes
    ----------
    key, title, about : str
    kinds : tuple of str
        Kinds of data sets that can be asked.
    private : bool
        Whether the answer has a guarantee.
    settings, sizes : tuple of Setting
        `sizes` are public numbers, stated by the person, of which the simulation makes data.
    command : callable
        Returns the arguments of `tacit`; ``{output}`` stands for the folder of the run.
    code : callable
        Returns the same in Python.
    released : str
        What may be passed on, below the output folder, if the guarantee holds.
    unfit : callable
        Returns why a data set cannot be asked; empty if it can.
    use : str
        What can be done with the file that may be passed on.
    """

    key: str
    title: str
    about: str
    kinds: tuple[str, ...]
    private: bool
    settings: tuple[FormField, ...]
    command: Callable[[Context], list[str]]
    code: Callable[[Context], str]
    released: str = ""
    sizes: tuple[FormField, ...] = ()
    unfit: Callable[[Context], str] = field(default=lambda context: "")
    use: str = IN_PYTHON

    def problems(self, values: Values, *, sizes: bool = False) -> dict[str, str]:
        """Return what is wrong with the settings, by field."""
        checked = self.settings + (self.sizes if sizes else ())
        problems = {one.name: one.problem(values.get(one.name, "").strip()) for one in checked}
        return {name: problem for name, problem in problems.items() if problem}


def command_line(arguments: list[str], output: str) -> str:
    """Return the command as a person would type it, with a folder of their own for the output."""
    shown = [part.replace("{output}", output) for part in arguments if part != "--json"]
    return shlex.join(["tacit", *shown])


HIDDEN = FormField("hidden", "Width of the hidden layer", "32", "none, or widths as in 64,32.")
RANK = FormField(
    "rank", "Number of components", "8", "How many topics or parts. Choose it without looking at these rows.", 1, 500
)
ROWS = FormField(
    "rows", "Rows, about", "5000", "A public estimate, as in an annual report. Nothing is counted here.", 10, 10**9
)
COLUMNS = FormField("columns", "Columns", "20", "How many columns (words, pixels) there are: public.", 2, 10**5)
BLOCKS = FormField(
    "blocks",
    "Parts",
    "1",
    "More than 1 for a file larger than memory: it is read in parts, one at a time, and not compared with a fit without "
    "privacy. Needs tacit[dask].",
    1,
    10_000,
    rare=True,
)
IN_PARTS = "# For data that is read in parts, use the command line above, or tacit.cluster.run_on."


def _recommend(context: Context) -> list[str]:
    answers, values = context.data.answers, context.values
    if context.data.kind == CLICKS:
        columns = [column for role in OF_CLICKS if (column := answers.get(role, ""))]
        own = ["--implicit", f"--columns={','.join(columns)}"]
    else:
        own = [
            f"--columns={answers['user']},{answers['item']},{answers['rating']}",
            f"--rating-range={float(answers['low']):g}:{float(answers['high']):g}",
            f"--factors={int(values['factors'])}",
        ]
    return [
        "fit",
        "recommend",
        context.data.path,
        f"--catalogue={context.catalogue}",
        *own,
        *(["--frontier"] if values.get("frontier") == "yes" and not context.in_parts else []),
        *context.blocks,
        *context.spending,
        "--output={output}",
    ]


def _recommend_code(context: Context) -> str:
    if context.in_parts:
        return IN_PARTS
    answers = context.data.answers
    if context.data.kind == CLICKS:
        return _clicks_code(context)
    names = ", ".join(f"{role}=polars.col({answers[role]!r})" for role in ("user", "item", "rating"))
    return f"""\
import polars

from tacit import Ledger
from tacit.data.files import read_frame
from tacit.report.recommender import compare_recommenders

items = open({str(context.catalogue)!r}).read().split("\\n")[:-1]
ratings = read_frame({context.data.path!r}).select({names}).with_columns(polars.col("item").cast(polars.String))
result = compare_recommenders(
    ratings, {int(context.values["factors"])}, catalogue=items,
    rating_range=({float(answers["low"]):g}, {float(answers["high"]):g}),
    {context.budget},
)
result.save("result")
print(result.guarantee)
"""


def _clicks_code(context: Context) -> str:
    answers = context.data.answers
    names = ", ".join(f"{role}=polars.col({answers[role]!r})" for role in OF_CLICKS if answers.get(role))
    return f"""\
import polars

from tacit import Ledger
from tacit.data.files import read_frame
from tacit.report.implicit import compare_implicit

items = open({str(context.catalogue)!r}).read().split("\\n")[:-1]
clicks = read_frame({context.data.path!r}).select({names}).with_columns(polars.col("item").cast(polars.String))
result = compare_implicit(
    clicks, catalogue=items,
    {context.budget},
)
result.save("result")
print(result.guarantee)
"""


def _table(context: Context) -> list[str]:
    label = context.values.get("label", "")
    return [
        "perturb",
        context.data.path,
        "--method=private-table",
        f"--schema={context.schema_file}",
        *([f"--label={label}"] if label else []),
        *context.spending,
        "--output={output}/release.csv",
        "--report={output}",
    ]


def _table_code(context: Context) -> str:
    label = context.values.get("label", "")
    return f"""\
from tacit import Ledger
from tacit.data import TableSchema
from tacit.data.files import read_frame
from tacit.report.tables import synthesize_table

result = synthesize_table(
    read_frame({context.data.path!r}, as_text=True), TableSchema.load({str(context.schema_file)!r}),
    label={label or None!r}, {context.budget},
)
result.table.write_csv("release.csv")
print(result.summary["guarantee"]["sentence"])
"""


def _topics(context: Context) -> list[str]:
    values = context.values
    own = context.chosen()
    words = f"--vocabulary={values.get('words') or 'paid'}"
    if context.data.kind == TEXT_COLUMN:
        own = [f"--text-column={context.data.answers['text']}", words]
    elif context.data.kind == TEXTS and (context.data.path.endswith(".jsonl") or values.get("folder") == "texts"):
        own = [words]
    return [
        "fit",
        "nmf",
        context.data.path,
        f"--rank={int(values['rank'])}",
        *own,
        *context.blocks,
        *context.spending,
        "--output={output}",
    ]


def _topics_code(context: Context) -> str:
    if context.in_parts:
        return IN_PARTS
    if context.data.kind in (TEXTS, TEXT_COLUMN):
        return "# For texts or images, use the command line above."
    chosen = f", columns={list(context.numbers())!r}" if context.chosen() else ""
    return f"""\
from sklearn.preprocessing import normalize

from tacit import Ledger
from tacit.data import read_matrix
from tacit.report.nmf import compare_nmf

rows = read_matrix({context.data.path!r}{chosen})
result = compare_nmf(
    normalize(rows.X), {int(context.values["rank"])}, terms=rows.names,
    {context.budget},
)
result.save("result")
print(result.guarantee)
"""


def _components(context: Context) -> list[str]:
    kind = "svd" if context.values.get("kind") == "svd" else "pca"
    bound = f"--feature-range={_ranges_file(context)}" if context.data.kind == TABLE else "--unit-rows"
    rank = int(context.values["rank"])
    return [
        "fit",
        kind,
        context.data.path,
        f"--rank={rank}",
        bound,
        *context.chosen(),
        *context.blocks,
        *context.spending,
        "--output={output}",
    ]


def _components_code(context: Context) -> str:
    if context.in_parts:
        return IN_PARTS
    kind = "svd" if context.values.get("kind") == "svd" else "pca"
    rows, bound = "normalize(rows.X)", ""
    chosen = f", columns={list(context.numbers())!r}" if context.chosen() else ""
    if context.data.kind == TABLE:
        specs = list(context.numbers().values())
        lows, highs = [float(spec.low) for spec in specs], [float(spec.high) for spec in specs]
        rows, bound = "rows.X", f"\n    feature_range=({lows!r}, {highs!r}),"
    return f"""\
from sklearn.preprocessing import normalize

from tacit import Ledger
from tacit.data import read_matrix
from tacit.report.components import fit_components

rows = read_matrix({context.data.path!r}{chosen})
result = fit_components(
    {rows}, {int(context.values["rank"])}, kind={kind!r}, terms=rows.names,{bound}
    {context.budget},
)
result.save("result")
print(result.guarantee)
"""


def _ranges_file(context: Context) -> Path:
    """Write the public range of every column of numbers, as it is now."""
    place, text = context.store.place(context.data) / "ranges.csv", io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["name", "low", "high"])
    for name, spec in context.numbers().items():
        writer.writerow([name, spec.low, spec.high])
    write_private(place, text.getvalue())
    return context.store.frozen(place)


def _coupled(context: Context) -> list[str]:
    return ["fit", "coupled", context.data.path, "--json", "--output={output}"]


def _private_coupled(context: Context) -> list[str]:
    values = context.values
    return [
        "fit",
        "coupled",
        context.data.path,
        f"--private={values['private'].strip()}",
        f"--value-range={values['value_range'].strip()}",
        *context.spending,
        "--output={output}",
    ]


def _coupled_code(context: Context) -> str:
    return "# The relations and ranks are in the TOML file; use the command line above, or tacit.CoupledFactorization."


def _network(context: Context) -> list[str]:
    values = context.values
    label, schema = values["label"], context.schema()
    classes_file = context.store.place(context.data) / "classes.txt"
    column = schema.columns[label]
    assert isinstance(column, CategoryColumn)
    write_private(classes_file, "\n".join(str(value) for value in column.categories) + "\n")
    return [
        "fit",
        "neural",
        context.data.path,
        f"--label={label}",
        f"--classes={context.store.frozen(classes_file)}",
        f"--feature-range={_ranges_file(context)}",
        *context.chosen(label),
        f"--hidden={values['hidden'].replace(' ', '')}",
        f"--epochs={int(values['epochs'])}",
        *context.spending,
        "--output={output}",
    ]


def _network_code(context: Context) -> str:
    label, schema = context.values["label"], context.schema()
    column = schema.columns[label]
    assert isinstance(column, CategoryColumn)
    ranged = list(context.numbers().values())
    hidden = context.values["hidden"].replace(" ", "")
    widths = "()" if hidden == "none" else f"({hidden},)"
    return f"""\
import polars

from tacit import Ledger
from tacit.data.files import read_frame
from tacit.report.network import compare_networks

table = read_frame({context.data.path!r})
classes = {[str(value) for value in column.categories]!r}
result = compare_networks(
    table.select({list(context.numbers())!r}).cast(polars.Float64).to_numpy(),
    table[{label!r}].cast(polars.String).to_numpy(), classes=classes,
    feature_range=({[float(spec.low) for spec in ranged]!r}, {[float(spec.high) for spec in ranged]!r}),
    hidden={widths}, epochs={float(context.values["epochs"])!r},
    {context.budget},
)
result.save("result")
print(result.guarantee)
"""


def _few_numbers(context: Context, *, least: float | None) -> str:
    if context.data.kind != TABLE:
        return ""
    columns = context.numbers()
    if len(columns) < 2:
        return "This question needs at least two columns of numbers without empty cells."
    below = [name for name, spec in columns.items() if least is not None and spec.low < least]
    if below:
        return f"This question needs values of at least 0; the bound of {below[0]} is below."
    return _choice(context)


def _network_unfit(context: Context) -> str:
    label = context.values.get("label", "")
    if not any(isinstance(spec, CategoryColumn) for spec in context.schema().columns.values()):
        return "This question needs a column with categories to predict."
    if not context.numbers():
        return "This question needs columns of numbers without empty cells, to predict from."
    return _choice(context, label)


def _choice(context: Context, beside: str = "") -> str:
    """Return why the columns of numbers cannot be chosen out of the table; empty if they can."""
    if not context.chosen(beside):
        return ""
    if any("," in name for name in context.numbers()):
        return "The name of a column has a comma. Rename the column in the file."
    if context.in_parts:
        return "A file that is read in parts is used with all its columns. Make a file with columns of numbers only."
    return ""


QUESTIONS: dict[str, Question] = {
    question.key: question
    for question in (
        Question(
            "recommender",
            "Recommend items",
            "What may a user like? You get a model that lists items for any user whose history it is given. Only its knowledge "
            "about items may be passed on; what single users did is not in it.",
            (RATINGS, CLICKS),
            True,
            (
                FormField("factors", "Factors, at most", "16", "How many tastes the model may have.", 1, 200),
                FormField(
                    "frontier",
                    "Also draw what other epsilons would cost",
                    "no",
                    "Slower. On made-up users, drawn from the released model: it costs no privacy.",
                    choices=(("no", "No"), ("yes", "Yes")),
                    rare=True,
                ),
                BLOCKS,
            ),
            _recommend,
            _recommend_code,
            "model/recommender.tacit",
            (
                FormField("users", "Users, about", "2000", "A public estimate. Nothing is counted here.", 10, 10**9),
                FormField("per_user", "Rows of a user, about", "20", "A public estimate.", 1, 10**6),
            ),
            use="Whoever has the file can ask it for items: here below, with the command tacit recommend, or in Python with "
            "tacit.load. A history goes in, and a list of items comes out.",
        ),
        Question(
            "synthetic",
            "Make a synthetic table",
            "Synthetic rows with the same columns and similar values.",
            (TABLE,),
            True,
            (
                FormField(
                    "label",
                    "Column with classes (optional)",
                    "",
                    "Everything is counted within each class, so that classifiers can be trained on the rows.",
                ),
            ),
            _table,
            _table_code,
            "release.csv",
            (ROWS,),
            use="It is a table like yours: open it with any program, and train or test with it what you would with your own.",
        ),
        Question(
            "topics",
            "Find topics or parts",
            "A few non-negative patterns whose sums make up the rows: topics of texts, parts of images, profiles of customers.",
            (TABLE, MATRIX, TEXTS, TEXT_COLUMN),
            True,
            (
                RANK,
                FormField("folder", "The folder has", "texts", choices=(("texts", "Texts"), ("images", "Images"))),
                FormField(
                    "words",
                    "File with public words, one per line (optional)",
                    "",
                    "Words that occur in private texts are not public. The word list of a spell checker is, and costs nothing: "
                    "give its path below a folder that the app was started with. Without it a part of the budget pays for "
                    "the words, and short or few texts get few words.",
                ),
                BLOCKS,
            ),
            _topics,
            _topics_code,
            "model/nmf.tacit",
            (
                ROWS,
                COLUMNS,
            ),
            lambda context: _few_numbers(context, least=0.0),
        ),
        Question(
            "components",
            "Find components (PCA, SVD)",
            "The directions in which rows differ most. Rows of a matrix are scaled to the same length; a table uses its bounds.",
            (TABLE, MATRIX),
            True,
            (
                RANK,
                FormField(
                    "kind",
                    "Kind",
                    "pca",
                    choices=(("pca", "Principal components"), ("svd", "Singular vectors")),
                ),
                BLOCKS,
            ),
            _components,
            _components_code,
            "model/{kind}.tacit",
            (ROWS, COLUMNS),
            lambda context: _few_numbers(context, least=None),
        ),
        Question(
            "network",
            "Predict a class",
            "A small network that predicts one column from the others. Needs tacit[neural].",
            (TABLE,),
            True,
            (
                FormField("label", "Column to predict", "", "A column with categories."),
                HIDDEN,
                FormField("epochs", "Passes over the data", "10", "", 1, 1000),
            ),
            _network,
            _network_code,
            "model/network.tacit",
            (ROWS,),
            _network_unfit,
        ),
        Question(
            "private_coupled",
            "Factorise coupled tables",
            "Matrices and tensors that share entities. The shared factors may be passed on; those of the protected entities stay "
            "here. The TOML file must list all entities ([names] or [sizes]).",
            (COUPLED,),
            True,
            (
                FormField(
                    "private", "Whom to protect", "user", "The name of the factor of the persons in the TOML file."
                ),
                FormField("value_range", "Range of the values", "1:5", "Public least and greatest value, as in 1:5."),
            ),
            _private_coupled,
            _coupled_code,
            "model/coupled.tacit",
        ),
        Question(
            "coupled",
            "Factorise coupled tables without privacy",
            "Matrices and tensors that share entities. This has no guarantee: the result is for you and may not be passed on.",
            (COUPLED,),
            False,
            (),
            _coupled,
            _coupled_code,
        ),
    )
}


def questions_for(data: DataSet) -> list[Question]:
    """Return the questions that a data set can be asked."""
    return [question for question in QUESTIONS.values() if data.kind in question.kinds]


def defaults(question: Question) -> dict[str, Any]:
    """Return the values with which a form begins."""
    return {one.name: one.default for one in question.settings + question.sizes} | {"epsilon": "1", "delta": "1e-6"}
