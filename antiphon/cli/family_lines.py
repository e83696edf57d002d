"""``antiphon dev families``: how many files and lines each family is."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from antiphon.cli.flags import AsJson
from antiphon.cli.tables import show_table


@dataclass(frozen=True, slots=True)
class FamilySize:
    """Size of a family's folder.

    Attributes:
        lines: lines of all modules, with comments and docstrings, without blank ones.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    files: int
    lines: int


def family_lines(
    as_json: AsJson = False,
) -> None:
    """List the families with the files and lines of their folders; blank lines do not count."""
    sizes = list(family_sizes())
    show_table(
        [asdict(each) for each in sizes],
        ("Family", "Tasks", "Files", "Lines"),
        [[each.name, ", ".join(each.tasks), each.files, each.lines] for each in sizes],
        as_json,
    )


def family_sizes() -> Iterator[FamilySize]:
    """Count every family in the registry."""
    from antiphon.families.registry import FAMILIES, family

    for name, target in FAMILIES.items():
        found = find_spec(target.partition(":")[0])
        assert found is not None
        assert found.origin is not None
        texts = [
            path.read_text(encoding="utf-8")
            for path in sorted(Path(found.origin).parent.rglob("*.py"))
        ]
        num_lines = sum(bool(line.strip()) for text in texts for line in text.splitlines())
        described = family(name)
        yield FamilySize(name, described.title, tuple(described.tasks), len(texts), num_lines)
