"""The figures of ECMP: what a plain program finds, and the same whatever jobs come and go and links fail and return."""

import json
import statistics
import struct
import zlib
from collections import Counter
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.model.health import Health
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.segments import segments_of
from heddle.controller.planner.proof.ecmp import ecmp_figures, name_of
from heddle.controller.planner.proof.hashed import HashedLoads
from tests.support.examples import examples
from tests.support.fabrics.planning import fabric_file, job_files, planned, sick_fabrics


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_figures_of_jobs_that_come_and_go_are_those_of_all_of_them_computed_again(data):
    fabric_data = data.draw(sick_fabrics())
    fabric = parse_fabric(json.dumps(fabric_data), "fabric.yaml")
    jobs = parse_jobs(json.dumps(data.draw(job_files(fabric_data))), "jobs.yaml", fabric)
    topology, cables = topology_of(fabric), [cable.id for cable in fabric.cables]
    hashed = HashedLoads(topology)
    for _ in range(data.draw(st.integers(1, 4))):
        down = data.draw(st.sets(st.sampled_from(cables), max_size=2))
        now = [job for job in jobs if data.draw(st.booleans())]
        segments = segments_of(topology, Live.of(topology, Health(down_cables=frozenset(down))))
        flows, names = expand(topology, now), [name_of(job.job_id) for job in now]
        assert hashed.figures(segments, now, flows) == ecmp_figures(topology, segments, flows, names)


@given(data=st.data())
@settings(max_examples=examples(30), deadline=None)
def test_the_figures_are_the_medians_that_a_plain_program_finds(data):
    """On healthy spines and leaves; flows are read from the plan, ports drawn and paths hashed by other code."""
    shape = {"kind": "spine_leaf", "spines": data.draw(st.integers(1, 5)), "leaves": 3, "hosts_per_leaf": 3}
    fabric_data = fabric_file(**shape)
    fabric = parse_fabric(json.dumps(fabric_data), "fabric.yaml")
    plan = planned(fabric_data, data.draw(job_files(fabric_data)))
    spines = sorted({cable.upper.switch for cable in fabric.cables}, key=[s.id for s in fabric.switches].index)
    flows = [(job.job_id, flow) for job in plan.jobs for flow in job.flows]
    wanted = (plan.certificate.ecmp_max_link_utilisation, plan.certificate.e_ecmp_max_link_utilisation)
    assert wanted == tuple(
        statistics.median(fullest(fabric, spines, flows, kind, seed) for seed in range(16)) for kind in (0, 1)
    )


def fullest(fabric, spines, flows, kind, seed) -> float:
    """Return the largest utilisation under ECMP (kind 0) or E-ECMP (1) with the ports of a seed."""
    loads: dict[tuple[str, str, str], Counter] = {}
    logical: dict[tuple[str, int, int, int], list] = {}
    for job_id, flow in flows:
        logical.setdefault((job_id, flow.collective, flow.src_rank, flow.dst_rank), []).append(flow)
    for (job_id, *flow_id), pairs in logical.items():
        source, target = fabric.nic_by_id[pairs[0].src_nic], fabric.nic_by_id[pairs[0].dst_nic]
        count = max(len(pairs), 4) if kind else 1
        number = drawn(0, zlib.crc32(job_id.encode()), *flow_id, pairs[0].queue_pair)
        demand = sum(flow.demand_bps for flow in pairs)
        for pair in range(count if source.port.switch != target.port.switch else 0):
            port = 49152 + murmur(murmur(number + pair) ^ murmur(16 * kind + seed + 1)) % 16384
            packed = struct.pack(">IIBHH", source.ip, target.ip, 17, port, 4791)
            spine = spines[zlib.crc32(packed) * len(spines) // 2**32]
            share = demand // count + (pair < demand % count)
            for link in ((source.port.switch, spine), (spine, target.port.switch)):
                loads.setdefault((job_id, *link), Counter())[pairs[0].phase] += share
    total: Counter = Counter()
    for (_, *ends), by_phase in loads.items():
        total[tuple(ends)] += max(by_phase.values())
    return max((float(Fraction(load, fabric.cables[0].capacity_bps)) for load in total.values()), default=0.0)


def drawn(number: int, *columns: int) -> int:
    for column in columns:
        number = murmur(31 * number + column)
    return number


def murmur(value: int) -> int:
    """Return the finaliser of MurmurHash3 for 32 bits (Appleby, public domain)."""
    value %= 2**32
    value = (value ^ value >> 16) * 0x85EBCA6B % 2**32
    value = (value ^ value >> 13) * 0xC2B2AE35 % 2**32
    return value ^ value >> 16
