"""Fixtures that run a test on the fake switch and on Open vSwitch."""

import pytest
import pytest_asyncio

from tests.contract.openflow_labs import FakeLab, OvsLab
from tests.support.processes.private_ovs import private_ovs


@pytest.fixture(scope="module")
def ovs():
    with private_ovs() as running:
        yield running


@pytest_asyncio.fixture(params=["fake", pytest.param("ovs", marks=pytest.mark.e2e)])
async def lab(request):
    made = FakeLab() if request.param == "fake" else OvsLab(request.getfixturevalue("ovs"))
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


@pytest_asyncio.fixture
async def ovs_lab(ovs):
    made = OvsLab(ovs)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
