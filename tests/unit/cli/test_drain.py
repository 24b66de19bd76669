"""`heddle drain` and the config keys of moves."""

import json

import pytest

from tests.support.controllers.served_controller import served


@pytest.fixture(scope="module")
def server():
    """The gRPC address of a controller without switches: nothing has to acknowledge a drain."""
    with served() as controller:
        yield controller.grpc


def drained(heddle, server) -> set[str]:
    _, out, _ = heddle("topology", "--json", "--server", server)
    return {link["id"] for link in json.loads(out)["links"] if link.get("drained")}


def test_a_link_is_drained_in_both_directions_and_returned(heddle, server):
    _, out, _ = heddle("topology", "--json", "--server", server)
    link = next(each["id"] for each in json.loads(out)["links"] if each["src"].startswith("leaf1:"))
    status, out, err = heddle("drain", link, "--server", server)
    assert (status, err) == (0, "")
    assert out == f"{link} is drained: 0 flows moved; the fullest link is at 0.0% (bound 0.0%)\n"
    src, _, dst = link.partition(">")
    assert drained(heddle, server) == {link, f"{dst}>{src}"}
    _, shown, _ = heddle("topology", "--server", server)
    assert "drained" in shown
    status, out, _ = heddle("drain", link, "--undrain", "--json", "--server", server)
    assert (status, json.loads(out)["flows_moved"]) == (0, 0)
    assert drained(heddle, server) == set()


def test_an_unknown_target_is_one_line(heddle, server):
    status, out, err = heddle("drain", "leaf99", "--server", server)
    assert status != 0
    assert out == ""
    assert err == "heddle: target: there is no link, switch or NIC 'leaf99'; `heddle topology` lists them\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("any", "moves.arrival: must be none, or one of none, own_job, tenant, lower_priority, any and a number"),
        ("all 3", "moves.arrival: must be none, or one of"),
        ("any 99999999999", "moves.arrival: at most 4294967295 flows, or unlimited"),
    ],
)
def test_an_unreadable_limit_of_moves_is_one_line(heddle, files, text, said):
    config = files("heddle.yaml", f"moves: {{arrival: {text}}}\n")
    status, out, err = heddle("run", config.parent / "fabric.yaml", "--config", config)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
