"""Table 2: the data sets."""

from __future__ import annotations

from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import ItemOutcome, Row, SideBySide
from tacit.reproduce.saha_imtiaz.setting import faces, texts

PAPER = {
    "guardian": (4551, 10_285, 8),
    "news-aggregator": (3000, 93, None),
    "rcv1-4class": (9625, 2999, None),
    "tdt2": (9394, 3677, 30),
    "yale-b": (2414, 1024, 38),
    "cbcl": (2429, 361, 50),
}
"""Table 2, page 5: samples N, dimension D, latent dimension K; None where the printed cell is empty."""


@item(
    paper="saha-imtiaz",
    name="table-2",
    title="summary of data sets",
    page=5,
    needs=tuple(PAPER),
    minutes=0.5,
    code=("tacit.reproduce.saha_imtiaz.setting",),
)
def table_2(run: ItemRun) -> ItemOutcome:
    """Sizes of what is used here."""
    rows = []
    for name, make in run.each(list({**texts(run), **faces(run)}.items())):
        case = make()
        for quantity, paper, ours in zip(("N", "D", "K"), PAPER[name], (*case.X.shape, case.rank), strict=True):
            remark = run.data.note(name) or "Documents without any of the terms are left out, and sizes are no result."
            rows.append(Row((case.title, quantity), paper, (float(ours),), decimals=0, remark=remark))
    return ItemOutcome((SideBySide("Samples, dimension, latent dimension", ("data", "size"), tuple(rows)),))
