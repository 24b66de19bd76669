"""The example network file equals the network of the lab of virtual networks."""

from pathlib import Path

import pytest

from heddle.controller.config.network_file import load_network_file
from heddle.controller.model.error import InputError
from heddle.mininet_topos.vpc.balanced import balanced
from heddle.mininet_topos.vpc.command import options_of
from heddle.mininet_topos.vpc.description import PORTS, VNIS, ports_of
from heddle.mininet_topos.vpc.probes import echo_request

EXAMPLE = Path(__file__).parents[3] / "examples" / "vpc.yaml"


def test_the_example_equals_the_lab_s_network():
    assert load_network_file(EXAMPLE) == balanced()


def test_every_machine_of_the_lab_is_behind_one_host():
    found = [name for host in ("h1", "h2", "h3") for name in ports_of(host).values()]
    assert sorted(found) == sorted(machine.name for machine in PORTS)
    assert {vni for host in ("h1", "h2", "h3") for vni, _ in ports_of(host)} == set(VNIS.values())


def test_an_echo_requests_checksum_makes_its_words_add_up_to_ones():
    for text in (b"", b"odd", b"even"):
        packet = echo_request(4, 0xFFFF, 0xABCD, text)
        padded = packet + b"\0" * (len(packet) % 2)
        total = sum(int.from_bytes(padded[at : at + 2], "big") for at in range(0, len(padded), 2))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        assert total == 0xFFFF


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"vteps": "tap"}, "--vtep: 'tap' is none of kernel, ovs, mixed"),
        ({"run": ["red1"]}, "not a node and a command"),
        ({"run": ["red9 ping 10.0.0.1"]}, "the nodes are"),
    ],
)
def test_bad_options_are_refused_before_anything_is_built(wrong, words):
    fine = {"vteps": "mixed", "gateways": 1, "file": None, "run": [], "once": True, "as_json": False}
    with pytest.raises(InputError, match=words):
        options_of(**{**fine, **wrong})
