"""The items of a file, in a process of its own: `python -m tacit.app.items FILE COLUMN MOST` prints them as a JSON list."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tacit.errors import InvalidInputError, TacitError, words


def items_in(path: Path, column: str, most: int) -> list[str]:
    """Return each item of a file once, in its order: the lines of a text, the column of a table, or a table's first column.

    Parameters
    ----------
    path : Path
    column : str
    most : int
        More items are refused.
    """
    import polars

    from tacit.data.files import read_columns, reading

    with reading(path, "a list of items", polars.exceptions.PolarsError, polars.exceptions.PanicException):
        name = path.name.lower()
        if name.endswith(".txt"):
            lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
            distinct = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
        else:
            columns = list(read_columns(path))
            if name.endswith(".parquet"):
                table = polars.scan_parquet(path, hive_partitioning=False)
            else:
                table = polars.scan_csv(path, infer_schema=False, separator="\t" if name.endswith(".tsv") else ",")
            items = table.select(
                polars.col(column if column in columns else columns[0]).cast(polars.String)
            ).drop_nulls()
            distinct = items.unique(maintain_order=True).head(most + 1).collect().to_series().to_list()
    if len(distinct) > most:
        raise InvalidInputError(f"at most {most} items", words("more"), "Give a list of the items alone.")
    return distinct


def main() -> None:
    """Print the items, or an error as the commands of tacit do."""
    try:
        print(json.dumps(items_in(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
    except TacitError as error:
        print(json.dumps({"error": {"message": str(error)}}))
        sys.exit(2)


if __name__ == "__main__":
    main()
