"""The rows of a CSV file, by column. The first line names the columns; a row's number is the line that it ends on."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shoal.streams.errors import InputError
from shoal.streams.files.formats.format import Blocks


class CsvRow(NamedTuple):
    """One row: its fields in the order of the wanted columns, None where they are empty.

    None in place of them: the row has more fields than the header, or fewer.
    """

    number: int
    fields: list[str | None] | None


def read_rows(blocks: Blocks, delimiter: str, wanted: Iterable[str], optional: Iterable[str] = ()) -> Iterator[CsvRow]:
    """Yields every row. An optional column that the file does not have is empty.

    Raises `InputError` if the header lacks a wanted column or the file is no CSV.
    """
    rows = csv.reader(_text(blocks), delimiter=delimiter, strict=True)
    try:
        header = next(rows, None)
        if header is None:
            raise InputError("the CSV file is empty; its first line must name the columns.")
        places = _places(header, [*wanted], [*optional], delimiter)
        for row in rows:
            if row:
                fits = len(row) == len(header)
                yield CsvRow(
                    rows.line_num, [None if at is None else row[at] or None for at in places] if fits else None
                )
    except csv.Error:
        raise InputError(f"line {rows.line_num} and what follows is not CSV.") from None


def _places(header: list[str], wanted: list[str], optional: list[str], delimiter: str) -> list[int | None]:
    missing = [name for name in dict.fromkeys(wanted) if name not in header]
    doubled = [name for name in dict.fromkeys((*wanted, *optional)) if header.count(name) > 1]
    if missing or doubled:
        trouble = [f"has no column {name}" for name in missing] + [f"has column {name} twice" for name in doubled]
        other = next((one for one in ";\t|," if one != delimiter and one in header[0]), None)
        hint = "name the columns in a --map file"
        if missing and len(header) == 1 and other is not None:
            shown = "a tab" if other == "\t" else f"`{other}`"
            hint = (
                f"its first line has no `{delimiter}` and several of {shown}: is that the file.delimiter of the --map?"
            )
        raise InputError(f"the CSV file {', '.join(trouble)}; {hint}.")
    return [header.index(name) if name in header else None for name in (*wanted, *optional)]


def _text(blocks: Blocks) -> Iterator[str]:
    """The lines as text with their ends, which `csv` needs. A byte order mark at the start is left out."""
    for number, line in enumerate((line for block in blocks for line in block), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"line {number} is not UTF-8 text.") from None
        yield from io.StringIO(text + "\n", newline="")  # some files end their lines with a carriage return alone
