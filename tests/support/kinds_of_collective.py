"""Generate the kinds of collective in docs/files.md from the code: `python -m tests.support.kinds_of_collective`."""

from pathlib import Path

from heddle.controller.model.job import CollectiveKind

PAGE = Path(__file__).parents[2] / "docs" / "files.md"
BEGIN = "<!-- Generated from `CollectiveKind` by `python -m tests.support.kinds_of_collective` -->\n"
END = "<!-- End of what is generated -->\n"
_COLUMNS = (
    *("`kind`", "flows between its n members, i = 0 … n-1", "`bytes`, B, per member and iteration"),
    *("B by NCCL's arguments", "bytes of a flow", "also reads"),
)
_HEAD = f"| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}\n"


def with_kinds(page: str) -> str:
    """Return the page with the table of today's kinds."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = (f"| {' | '.join(_row(kind))} |\n" for kind in CollectiveKind)
    return "".join((before, BEGIN, _HEAD, *rows, END, after))


def _row(kind: CollectiveKind) -> tuple[str, ...]:
    buffer = kind.buffer
    by_nccl = f"{buffer.formula} (`{buffer.call}`)"
    return f"`{kind.name}`", kind.pattern.words, buffer.words, by_nccl, kind.flow_size.words, _also_reads(kind)


def _also_reads(kind: CollectiveKind) -> str:
    field = kind.pattern.lists or ("root" if kind.pattern.is_rooted else "")
    return f"`{field}`" if field else ""


if __name__ == "__main__":
    PAGE.write_text(with_kinds(PAGE.read_text()))
