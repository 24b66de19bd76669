"""Find the source ports of planned paths on a lab of routers, as agents and a controller do."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from heddle.controller.model.plan import FlowPlan
from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.probing.flow import Wanted
from heddle.probing.prober import Prober
from heddle.probing.search import Search

AT_ONCE = 16


def wanted_of(lab: RoutedLab, flows: Sequence[FlowPlan]) -> list[Wanted]:
    """Return what to search for planned flows."""
    nics = lab.fabric.nic_by_id
    return [Wanted(flow.flow_id, nics[flow.src_nic].ip, nics[flow.dst_nic].ip, flow.links) for flow in flows]


def searched(lab: RoutedLab, flows: Sequence[FlowPlan], ways: int) -> tuple[Search, int]:
    """Probe from every NIC until the search is over; return it and the number of probes sent."""
    search = Search(wanted_of(lab, flows), lab.routers.routes.link_at, ways)
    with ExitStack() as stack:
        probers = {}
        for nic in lab.fabric.nics:
            with network_namespace(lab.net.host(nic.host).pid):
                probers[nic.ip] = stack.enter_context(Prober(nic.ip, lab.net.device_of[nic.id]))
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        while not search.is_over:
            asked = search.questions()
            waiting = {src_ip: pool.submit(probers[src_ip].send, questions) for src_ip, questions in asked.items()}
            for src_ip, replies in waiting.items():
                search.heard(src_ip, replies.result())
        return search, sum(prober.sent for prober in probers.values())
