"""One browser for all tests of the page, and a site whose fabric is in trouble."""

from collections.abc import Iterator

import pytest

from tests.fakes.dashboard_documents import troubled_documents
from tests.fakes.dashboard_site import DashboardSite
from tests.support.processes.browser import Browser, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("no Chromium here: scripts/setup all installs it")
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def site() -> Iterator[DashboardSite]:
    site = DashboardSite(troubled_documents())
    yield site
    site.close()
