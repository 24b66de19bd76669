"""The table of NCCL's flows in docs/bench.md is what its command prints."""

from io import StringIO
from pathlib import Path

from heddle.benchmarks.planning import nccl

PAGE = Path(__file__).parents[2] / "docs" / "bench.md"


def test_the_rows_of_two_and_four_hosts_are_those_of_the_page(monkeypatch):
    monkeypatch.setattr(nccl, "HOSTS", (2, 4))
    out = StringIO()
    assert len(nccl.run(out)) == 14
    assert out.getvalue() in PAGE.read_text()
