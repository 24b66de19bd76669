"""A flow with a floor shares a full link, and takes it whole when its neighbour has ended; one with a cap does not."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest, FlowResult
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.queue_model import why_unavailable
from tests.support.fabrics.small_fabrics import spine_leaf

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.alone,
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
]
LINE_BPS = 20_000_000
SHARE_BPS = LINE_BPS * 97 // 200
SIZE_BYTES = 3_000_000


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two leaves with two hosts each and one spine: both hosts of a leaf share its uplink."""
    fabric = spine_leaf(1, 2, 4)
    settings = replace(NicSettings.for_fabric(fabric), dcqcn=True)
    with Lab(fabric, settings=settings, queues=QueueSettings()) as lab:
        lab.ecmp.load()
        yield lab


def took_ns(flow: FlowResult) -> int:
    assert flow.completed_ns is not None
    return flow.completed_ns


def after_the_other(lab: Lab, rate_bps: int, floor_bps: int = 0) -> tuple[FlowResult, FlowResult]:
    """Run a flow of SIZE_BYTES beside one of a quarter of that."""
    requests = [
        FlowRequest(
            flow_id=f"f{n}", src_nic=f"h{n}-n0", dst_nic=f"h{n + 2}-n0", udp_source_port=0xC000 + n,
            reverse_udp_source_port=0xD000 + n, size_bytes=SIZE_BYTES if n == 1 else SIZE_BYTES // 4,
            rate_bps=rate_bps, floor_bps=floor_bps,
        )
        for n in (1, 2)
    ]  # fmt: skip
    result = lab.run_flows(requests, timeout_s=60)
    assert result.completed
    assert (result.queue_drops, result.integrity.valid) == ({}, True), str(result.integrity)
    return result.flows[0], result.flows[1]


def test_a_flow_with_a_floor_takes_the_link_that_its_neighbour_leaves(lab):
    capped, beside = after_the_other(lab, rate_bps=SHARE_BPS)
    free, shared = after_the_other(lab, rate_bps=2 * SHARE_BPS, floor_bps=SHARE_BPS)
    assert took_ns(free) < 0.85 * took_ns(capped)
    assert took_ns(shared) < 1.5 * took_ns(beside), "the one that ends first had its share meanwhile"
    assert free.rp_cnp_handled > 0
