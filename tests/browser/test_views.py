"""Every view in Chromium: it shows its document, raises no error, asks no other host, fits, and is accessible."""

import copy
import json
from pathlib import Path

import pytest

from tests.fakes.dashboard_site import DashboardSite
from tests.support.processes.browser import Browser, Page

AXE = Path(__file__).parents[1] / "data" / "axe" / "axe.min.js"
SHOWS = {
    "/": "Link leaf1:2 – spine2:1 is down",
    "/fabric?port=leaf3:3": "Queue depth",
    "/fabric?switch=spine2": "Ports of spine2",
    "/fabric?job=job-0": "Jobs that share links with job-0",
    "/fabric?preview=1": "Or a jobs file",
    "/matrix": "largest uplink / mean of uplinks",
    "/jobs": "team-1",
    "/jobs/job-0": "not measured",
    "/congestion": "towards NIC h5-n0",
    "/timeline": "leaf1:2>spine2:1 is down",
    "/networks": "900 of 1,000",
    "/health": "5/6",
}
"""A text of each address that only its document can have brought."""


def show(page: Page, address: str) -> None:
    """Go to an address as a link does, and wait for its text; a region's label counts as well."""
    page.run(f"history.pushState(null, '', {json.dumps(address)}); dispatchEvent(new PopStateEvent('popstate'))")
    text = json.dumps(SHOWS[address])
    page.wait_for(f"document.body.innerText.includes({text}) || document.querySelector(`[aria-label={text}]`) !== null")


def went_wrong(page: Page, site: DashboardSite) -> dict[str, list[str]]:
    foreign = [url for url in page.requests if not url.startswith((site.url, "data:", "about:"))]
    return {name: found for name, found in {"errors": page.errors, "foreign": foreign}.items() if found}


RULES = "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}"
SERIOUS = f"""axe.run(document, {RULES}).then(({{violations}}) => violations
  .filter(({{impact}}) => impact === 'serious' || impact === 'critical')
  .map(({{id, nodes}}) => id + ': ' + nodes.map(node =>
    node.html.slice(0, 120) + ' ' + (node.any[0]?.message ?? '')).join(' | ')))"""


def test_every_view_shows_its_document_without_an_error_or_a_foreign_request_and_fits_two_sizes(
    browser: Browser, site: DashboardSite
) -> None:
    wide = {}
    with browser.page() as page:
        page.open(site.url)
        for width, height in ((1280, 720), (390, 844)):
            page.resize(width, height)
            for address in SHOWS:
                show(page, address)
                if (needed := page.run("document.documentElement.scrollWidth")) > width:
                    wide[address] = needed
    assert wide == {}
    assert went_wrong(page, site) == {}


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1280), ("light", 390)])
def test_axe_finds_nothing_serious(browser: Browser, site: DashboardSite, scheme: str, width: int) -> None:
    wrong = {}
    with browser.page(width, 844, scheme=scheme) as page:
        page.open(site.url)
        page.run(AXE.read_text())
        for address in SHOWS:
            show(page, address)
            if found := page.run(SERIOUS):
                wrong[address] = found
    assert wrong == {}


def test_an_address_that_names_nothing_is_a_sentence_not_an_empty_page(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        for address, text in (
            ("/jobs/no-such", "Job no-such"),
            ("/fabric?switch=no-such", "This fabric has no switch no-such"),
            ("/fabric?port=leaf1:99", "This fabric has no such port"),
            ("/fabric?port=nonsense", "names no port"),
        ):
            page.open(site.url + address)
            page.wait_for_text(text)


def test_telemetry_that_raises_alarms_only_needs_attention(browser: Browser, site: DashboardSite) -> None:
    state = copy.deepcopy(site.documents["/api/state"])
    state["telemetry"]["acts"] = False
    with browser.page() as page:
        page.open(site.url)
        page.wait_for_text("Cabling: leaf1:1")
        assert "raises alarms only" not in page.run("document.body.innerText")
        site.publish("state", state)
        page.wait_for_text("Telemetry raises alarms only")


def test_wrong_missing_bad_and_unknown_cables_are_different_pictures(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        page.open(site.url)
        page.wait_for_text("Cabling: leaf1:1 and leaf1:2 are exchanged")
        marks = "[...document.querySelectorAll('.mark path')].map(p => [p.className.baseVal, p.getAttribute('d')])"
        shapes = page.run(f"Object.fromEntries({marks})")
        assert {"wrong", "missing", "bad", "unknown", "down", "drained"} == shapes.keys()
        assert len(set(shapes.values())) == 6
        dash = "getComputedStyle(document.querySelector('.half.' + kind)).strokeDasharray"
        assert len(set(page.run(f"['wrong', 'missing', 'bad', 'unknown'].map(kind => {dash})"))) == 4
        legend = "[...document.querySelectorAll('.legend path')].map(p => [p.className.baseVal, p.getAttribute('d')])"
        assert page.run(f"Object.fromEntries({legend})") == shapes
        for kind in ("wrong", "missing", "bad", "unknown"):
            assert page.run(f"document.querySelectorAll('.half.{kind}').length") == 2
