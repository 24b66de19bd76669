"""The networks view of a live lab: what the services list, with the verdict on the tables of real gateways."""

import signal
import time

import grpc
import pytest

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.browser.test_networks_of_a_controller import assert_listed
from tests.browser.test_page_of_a_controller import ROWS
from tests.e2e.vpc.test_lab_vpc_command import end, ready_line, start
from tests.support.processes.browser import Browser, chromium

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(chromium() is None, reason="Debian's chromium is not installed (scripts/setup all)"),
]
TIMEOUT_S = 120


def test_the_networks_view_of_a_lab_shows_what_the_services_list_and_every_vpc_verified():
    process = start("--json", "--vtep", "mixed")
    try:
        found = ready_line(process)
        shows_what_is_listed(found["url"] + "networks", found["server"])
        assert end(process, signal.SIGINT) == 0
    finally:
        process.kill()
        process.communicate()


def shows_what_is_listed(url: str, server: str) -> None:
    browser = Browser()
    try:
        with browser.page() as page, grpc.insecure_channel(server) as channel:
            vpcs, gateways = rpc.VpcServiceStub(channel), rpc.GatewayServiceStub(channel)
            page.open(url)
            ends = time.monotonic() + TIMEOUT_S
            while {each.verdict for each in vpcs.ListVpcs(pb.ListVpcsRequest()).isolation} != {"verified"}:
                assert time.monotonic() < ends, vpcs.ListVpcs(pb.ListVpcsRequest()).isolation
                time.sleep(0.2)
            page.wait_for(
                "(rows => rows.length && rows.every(row => row.cells[1].innerText.startsWith('verified')))"
                "([...document.querySelectorAll('[aria-label=VPCs] tbody tr')])"
            )
            listed = vpcs.ListVpcs(pb.ListVpcsRequest())
            balancers = vpcs.ListLoadBalancers(pb.ListVpcsRequest())
            assert_listed(page.run(ROWS), listed, gateways.ListGateways(pb.ListGatewaysRequest()), balancers)
            assert page.errors == []
    finally:
        browser.close()
