"""What a mapping reads from where, in words."""

from collections.abc import Iterator

from shoal.streams.files.mapping.conversion import AttributeRule
from shoal.streams.files.mapping.mapping import CapturedTable, TableMapping


def describe(mapping: TableMapping) -> Iterator[str]:
    """One line for each topic, each quasi-identifier and the sensitive values."""
    for table in mapping.tables:
        if not table.topic:
            continue
        yield f"{table.topic} is read for {', '.join(sorted(table.columns))}, and for nothing else"
    yield _line("id", _id(mapping.people))
    for rule in mapping.attributes:
        yield _line(rule.name, _attribute(rule))
    yield _line("sensitive", _values(mapping))


def _line(name: str, text: str) -> str:
    return f"{name:<12}{text}"


def _id(table: CapturedTable) -> str:
    return "/".join(table.id_columns)


def _attribute(rule: AttributeRule) -> str:
    if rule.column is None:
        return f"always {rule.constant}"
    words = [rule.column]
    if rule.lookup is not None:
        words.append(f"looked up among {len(rule.lookup)} codes")
    if rule.convert is not None:
        words.append("as full years until today" if rule.convert == "age" else "as its year")
    if rule.bin is not None:
        words.append(f"in bins of {rule.bin:g}")
    if rule.missing_value is not None:
        words.append(f"{rule.missing_value} where it is empty")
    else:
        words.append("rows without it are left out" if rule.withholds else "rows without it are rejected")
    return ", ".join(words)


def _values(mapping: TableMapping) -> str:
    rule, second = mapping.values, mapping.values_table
    words = [f"each value of the array {rule.columns[0]}" if rule.is_array else " and ".join(rule.columns)]
    if second is not None:
        words = [f"{rule.columns[0]} of every row with the person's {_id(second)}"]
    if rule.lookup is not None:
        words.append(f"looked up among {len(rule.lookup)} codes")
    if mapping.spell is not None:
        words.append("while it holds")
    words.append(
        "people without one are left out" if mapping.none is None else f"{mapping.none} for people without one"
    )
    return ", ".join(words)
