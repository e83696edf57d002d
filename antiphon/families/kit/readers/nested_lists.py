"""Lists of lists."""

from antiphon.contracts.config_file import ConfigSection


def nested_integers(section: ConfigSection, key: str) -> tuple[tuple[int, ...], ...]:
    """Read lists of whole numbers, such as the dilations of each block; raises ModelLoadError."""
    rows = section.values.get(key)
    is_nested = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    if not is_nested or not all(type(each) is int for row in rows or () for each in row):
        raise section.error(key, "must be lists of whole numbers")
    return tuple(map(tuple, rows or ()))
