"""Reading a file of any content returns a fabric or jobs, or raises InputError with one line for each problem."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config import parse_fabric, parse_jobs
from heddle.controller.model.error import InputError
from tests.support.examples import examples

FABRIC = """
version: 1
name: lab
generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, nics_per_host: 1, links_per_spine: 1, gbps: 0.02}
switches: [{id: spine1, role: spine, datapath_id: 0x101, rule_budget: 4000}]
links: [{a: "leaf1:1", b: "spine1:1", gbps: 100}]
hosts: [{id: gpu1, nics: [{id: gpu1-n0, ip: 10.1.0.1, mac: "02:00:0a:01:00:01", port: "leaf1:33", gbps: 1, gpus: [0]}]}]
failed: ["leaf1:2>spine2:1", spine2]
"""
JOBS = """
version: 1
jobs:
  - job_id: a
    tenant: t
    priority: 4
    ranks: [h1-n0, h2-n0, h3-n0]
    collectives:
      - {kind: RING_ALL_REDUCE, bytes: 10, qps_per_flow: 1}
      - {kind: GATHER, root: 0, bytes: 10, phase: 1, members: [0, 1]}
      - {kind: SEND_RECV, bytes: 10, pairs: [{src_rank: 0, dst_rank: 1}]}
      - {kind: CUSTOM, flows: [{src_rank: 0, dst_rank: 2, rate_bps: 5, udp_source_port: 50000}]}
  - {job_id: b, ranks: {all: true}, steering: PIN, lease_ms: 5, require_utilisation: 0.5, gpu_milli: 500}
"""
LAB = parse_fabric(FABRIC, "fabric.yaml")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**63, 2**64, 10**30, -1, 0, 10**400]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["leaf1:1", "leaf9:1", "10.0.0.1", "all", "a" * 64, "\n", "\ud800", "h1-n0>leaf1:3"]),
    st.dates(),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def places(value, path=()):
    """Return the path of every value within."""
    found = [path]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += places(inner, (*path, key))
    return found


def put(value, path, new):
    """Return the value with the value at a path replaced."""
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = put(value[path[0]], path[1:], new)
    return copied


def problems_of(read):
    """Return the problems of reading a text; any exception but InputError fails the test."""
    try:
        read()
    except InputError as error:
        return error.problems
    return ()


def read_both(text):
    """Read a text as each kind of file and check the lines that it is refused with."""
    for read in (lambda: parse_fabric(text, "f.yaml"), lambda: parse_jobs(text, "f.yaml", LAB)):
        problems = problems_of(read)
        assert len(problems) <= 21
        assert all(line.startswith("f.yaml: ") and line.isprintable() for line in problems)


@given(st.text(max_size=200))
@settings(max_examples=examples(200))
def test_any_text_is_read_or_refused(text):
    read_both(text)


@given(st.text(alphabet="a1:-[]{}&*!|>'\"#%@,?<~.\n\t ", max_size=80))
@settings(max_examples=examples(300))
def test_any_sequence_of_yaml_signs_is_read_or_refused(text):
    read_both(text)


@given(st.sampled_from([FABRIC, JOBS]), st.data())
@settings(max_examples=examples(300))
def test_a_file_with_any_value_replaced_is_read_or_refused(text, data):
    whole = yaml.safe_load(text)
    path = data.draw(st.sampled_from(places(whole)))
    read_both(yaml.dump(put(whole, path, data.draw(values)), Dumper=yaml.SafeDumper, allow_unicode=True))


@given(st.sampled_from([FABRIC, JOBS]), st.data())
@settings(max_examples=examples(200))
def test_a_file_with_any_stretch_of_text_replaced_is_read_or_refused(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    read_both(text[:start] + data.draw(st.text(max_size=5)) + text[end:])


@given(st.sampled_from([FABRIC, JOBS]), st.data())
@settings(max_examples=examples(50))
def test_the_same_text_gives_the_same_problems(text, data):
    whole = yaml.safe_load(text)
    path = data.draw(st.sampled_from(places(whole)))
    changed = yaml.safe_dump(put(whole, path, data.draw(values)))
    assert problems_of(lambda: parse_fabric(changed, "f")) == problems_of(lambda: parse_fabric(changed, "f"))


@pytest.mark.parametrize("text", [FABRIC, JOBS])
def test_the_files_that_are_mutated_here_are_sound(text):
    assert parse_jobs(text, "jobs.yaml", LAB) if text is JOBS else parse_fabric(text, "fabric.yaml")
