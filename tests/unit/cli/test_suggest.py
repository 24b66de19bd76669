import json

import pytest

from heddle.controller.dashboard.access.session import session_document
from heddle.controller.model.error import InputError
from heddle.controller.model.job import CollectiveKind
from heddle.programs.console.suggest import collective_of
from tests.support.controllers.served_controller import served

RING = ("--collective", "RING_ALL_REDUCE", "--bytes", "1000000")


@pytest.fixture(scope="module")
def server():
    """The gRPC address of a controller without switches: questions need none."""
    with served() as controller:
        yield controller.grpc


def test_a_place_is_shown_with_its_nics_and_the_reason(heddle, server):
    status, out, err = heddle("job", "suggest", "--ranks", 3, *RING, "--server", server)
    assert (status, err) == (0, "")
    assert "h1-n0 h2-n0 h3-n0" in out
    assert "fewest" in out


def test_json_is_the_reply_in_protobufs_mapping(heddle, server):
    status, out, _ = heddle("job", "suggest", "--ranks", 2, *RING, "--most", 2, "--json", "--server", server)
    places = json.loads(out)["placements"]
    assert status == 0
    assert [place["nics"] for place in places] == [["h1-n0", "h2-n0"], ["h3-n0", "h4-n0"]]
    assert places[0].keys() == {
        "nics", "max_link_utilisation", "own_max_link_utilisation", "leaves_used", "reason",
    }  # fmt: skip


def test_shares_of_gpus_are_packed(heddle, server):
    status, out, _ = heddle(
        "job", "suggest", "--ranks", 4, *RING, "--gpu-milli", 500, "--qps", 4, "--json", "--server", server
    )
    assert status == 0
    assert json.loads(out)["placements"][0]["nics"] == ["h1-n0", "h1-n0", "h2-n0", "h2-n0"]


def test_too_few_free_gpus_are_status_three_and_one_line(heddle, server):
    status, out, err = heddle("job", "suggest", "--ranks", 64, *RING, "--server", server)
    assert (status, out) == (3, "")
    assert err == "heddle: 64 ranks asked for, 8 free: ask for at most 8\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ranks", "2", "--collective", "RING_ALREDUCE"), "did you mean RING_ALL_REDUCE"),
        (("--ranks", "2", "--collective", "CUSTOM"), "not a collective over all ranks"),
        (("--ranks", "0", "--collective", "ALL_TO_ALL"), "--ranks"),
        (("--ranks", "2", "--collective", "ALL_TO_ALL", "--qps", "99"), "qps_per_flow"),
        (("--ranks", "2", "--collective", "ALL_TO_ALL", "--gpu-milli", "1000001"), "gpu_milli"),
        (("--ranks", "9" * 20, "--collective", "ALL_TO_ALL"), "ranks"),
        (("--ranks", "2", "--collective", "ALL_TO_ALL", "--most", "9" * 20), "max_suggestions"),
    ],
)
def test_a_malformed_request_is_status_two_without_a_controller(heddle, options, said):
    status, out, err = heddle("job", "suggest", *options, "--server", "127.0.0.1:1")
    assert (status, out) == (2, "")
    assert said in err


def takes(name: str) -> bool:
    try:
        return collective_of(name, 1, 1).kind.name == name
    except InputError:
        return False


def test_the_page_offers_the_collectives_that_the_command_takes():
    offered = session_document(None, login=False)["collectives"]
    assert len(offered) > 2
    assert offered == [kind.name for kind in CollectiveKind if takes(kind.name)]
