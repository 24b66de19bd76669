"""The agent keeps a topology file: a line for what it did, one for an error, and no reconfiguration every minute."""

import pytest

from heddle.controller.model.error import UnavailableError
from heddle.programs.console.slurm import topology_keeper
from heddle.programs.console.slurm.export import Put
from heddle.programs.console.slurm.topology_keeper import TopologyKeeper
from tests.support.fabrics.planner_cases import fabric_of


class LoggedKeeper(TopologyKeeper):
    """A keeper that keeps what it logs, and what its calls do."""

    def __init__(self, path):
        self.lines: list[str] = []
        self.results: list[Put | Exception] = []
        super().__init__(path, self.lines.append)


@pytest.fixture
def keeper(tmp_path, monkeypatch):
    """A keeper whose every call does the next of `results`; `lines` are those that it logged."""

    def put(fabric, form, named, out, *, reconfigure, note):
        result = found.results.pop(0)
        if isinstance(result, Exception):
            raise result
        note("2 nodes are no hosts of the fabric: a, b")
        return result

    monkeypatch.setattr(topology_keeper, "put_topology", put)
    found = LoggedKeeper(tmp_path / "topology.conf")
    return found


def test_a_minute_lies_between_two_comparisons_and_a_line_is_logged_where_something_was_done(keeper):
    keeper.results[:] = [Put("first: written", True), Put("second", False), Put("third: loaded", True)]
    for now_s, left in ((0, 2), (59, 2), (60, 1), (119, 1), (120, 0)):
        keeper.keep(fabric_of(), now_s)
        assert len(keeper.results) == left
    assert keeper.lines == ["2 nodes are no hosts of the fabric: a, b", "first: written", "third: loaded"]


@pytest.mark.parametrize("error", [UnavailableError("dead\nor worse"), OSError(28, "No space left on device")])
def test_an_error_is_logged_once_and_tried_again_after_ten_minutes(keeper, error):
    keeper.results[:] = [error, error, Put("written", True)]
    for now_s, left in ((0, 2), (599, 2), (600, 1), (1_199, 1), (1_200, 0)):
        keeper.keep(fabric_of(), now_s)
        assert len(keeper.results) == left
    assert len(keeper.lines) == 3
    assert "topology.conf: not kept: " in keeper.lines[0]
    assert keeper.lines[0].isprintable()
    assert keeper.lines[2] == "written"
