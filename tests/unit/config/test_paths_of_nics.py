"""NICs name in the fabric file over how many paths they spray: generated, listed, written again, compared, refused."""

import json

import pytest

from heddle.controller.config import parse_fabric
from heddle.controller.config.write import fabric_document, fabric_text
from heddle.controller.model.fabric_change import changes_between
from tests.unit.config.lab import refused

SHAPE = "kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1"
LISTED = """hosts:
  - id: h2
    nics:
      - id: h2-n0
        ip: 10.9.0.1
        paths_per_flow: 3
        ports: [{port: "p0-leaf2:9", gbps: 1}, {port: "p1-leaf2:9", gbps: 1}]
"""


def fabric(generate, hosts=""):
    return parse_fabric(f"version: 1\ngenerate: {{{generate}}}\n{hosts}", "fabric.yaml")


def paths(found):
    return {nic.id: nic.paths_per_flow for nic in found.nics}


def test_generated_nics_spray_over_as_many_paths_as_generate_says():
    assert paths(fabric(SHAPE)) == {"h1-n0": 1, "h2-n0": 1}
    assert paths(fabric(f"{SHAPE}, paths_per_flow: 256")) == {"h1-n0": 256, "h2-n0": 256}


def test_every_port_of_a_listed_nic_sprays_over_as_many():
    found = fabric(f"{SHAPE}, planes: 2, paths_per_flow: 2", LISTED)
    assert paths(found) == {"h1-n0/p0": 2, "h1-n0/p1": 2, "h2-n0/p0": 3, "h2-n0/p1": 3}


def test_a_fabric_that_is_written_out_is_the_same_as_text_and_as_json():
    whole = fabric(f"{SHAPE}, planes: 2", LISTED)
    assert parse_fabric("\n".join(fabric_text(whole, numbered=True)), "out.yaml").nics == whole.nics
    assert parse_fabric(json.dumps(fabric_document(whole)), "out.json").nics == whole.nics


def test_another_number_is_a_difference_and_another_digest():
    one, two = fabric(SHAPE), fabric(f"{SHAPE}, paths_per_flow: 2")
    assert [each.id for each in changes_between(one, two).others] == [
        "paths_per_flow of h1-n0",
        "paths_per_flow of h2-n0",
    ]
    assert one.digest != two.digest


@pytest.mark.parametrize("number", ["0", "257", "two"])
def test_a_number_that_no_nic_has_is_one_line(number):
    (line,) = refused(f"generate: {{{SHAPE}, paths_per_flow: {number}}}")
    assert line.startswith("fabric.yaml: generate.paths_per_flow: ")


def test_nics_that_spray_are_refused_where_switches_hash():
    nic = "{id: h2-n0, ip: 10.9.0.1, port: 'leaf2:9', gbps: 1, paths_per_flow: 3}"
    hosts = f"hosts: [{{id: h2, nics: [{nic}]}}]"
    why = "with `steering: hash` a queue pair has one path; leave it out"
    assert refused(f"steering: hash\ngenerate: {{{SHAPE}, paths_per_flow: 2}}\n{hosts}") == [
        f"fabric.yaml: generate.paths_per_flow: {why}",
        f"fabric.yaml: hosts[0].nics[0].paths_per_flow: {why}",
    ]
