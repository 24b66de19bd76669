"""What an operator does: follow changes, go back in time, act, use the keyboard, wait for the controller."""

import copy
from contextlib import closing
from datetime import datetime

from heddle.controller.config.load import parse_fabric
from tests.fakes.dashboard_documents import troubled_documents
from tests.fakes.dashboard_site import DashboardSite, drawn_state, fabric_document
from tests.support.free_ports import free_ports
from tests.support.processes.browser import Browser

CUT = "leaf2:1>spine1:2"
UNRECORDED = dict.fromkeys(("jobs", "switches", "counts", "miscablings"))
"""What the document of a past moment says nothing of."""
LARGE = "version: 1\nname: large\ngenerate: {kind: spine_leaf, spines: 8, leaves: 64, hosts_per_leaf: 2, gbps: 400}\n"
MIDDLE_OF_A_LEAF = """(async () => {
  const { picture } = await import('/static/js/picture.js');
  const { layout } = await import('/static/js/fabric/layout.js');
  const box = document.querySelector('.pane canvas').getBoundingClientRect();
  const { x, y } = layout(picture.fabric, picture.index, box.width, box.height).nodes.get('leaf9');
  return [box.x + x, box.y + y];
})()"""


def test_a_link_that_is_cut_is_a_problem_a_dashed_line_and_a_cross(browser: Browser, site: DashboardSite) -> None:
    fabric, state = site.documents["/api/fabric"], copy.deepcopy(site.documents["/api/state"])
    at = [link["id"] for link in fabric["links"]].index(CUT)
    with browser.page() as page:
        page.open(site.url)
        page.wait_for_text("Link leaf1:2 – spine2:1 is down")
        before = page.run("document.querySelectorAll('.mark path.down').length")
        state["links"]["up"][at] = 0
        site.publish("state", state)
        page.wait_for_text("Link leaf2:1 – spine1:2 is down")
        assert page.run("document.querySelectorAll('.mark path.down').length") == before + 1
        classes = page.run(
            f"document.querySelector('[data-link=\"{at}\"]').previousElementSibling.getAttribute('class')"
        )
        assert "down" in classes.split()


def test_the_page_says_how_many_cables_are_used_as_they_were_found_and_since_when(
    browser: Browser, site: DashboardSite
) -> None:
    named = ["leaf1:1>spine2:1", "leaf1:2>spine1:1"]
    fabric = site.documents["/api/fabric"]
    since_ms = int(datetime.now().replace(hour=9, minute=5, second=7).timestamp() * 1_000)
    with browser.page() as page:
        page.open(site.url)
        page.wait_for("document.querySelector('.legend') !== null")
        assert page.run("document.querySelector('.as-found')") is None
        site.documents["/api/fabric"] = {**fabric, "as_found": {"count": 2, "first": named, "since_ms": since_ms}}
        page.open(site.url)
        page.wait_for_text("2 cables are used as they were found since 09:05:07, not as in the fabric file")
        assert page.run("document.querySelector('.as-found').title") == ", ".join(named)


def test_the_matrix_crosses_pairs_with_a_cable_that_is_down(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        page.open(site.url + "/matrix")
        page.wait_for("document.querySelector('.cell.cut') !== null")
        marked = page.run("[...document.querySelectorAll('.cell')].filter(cell => cell.innerText.includes('✕'))"
                          ".map(cell => cell.title)")  # fmt: skip
        assert marked == ["leaf1 – spine2: 1 cable down"]


def test_a_violated_isolation_is_a_problem_that_leads_to_its_paths(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        page.open(site.url)
        page.wait_for_text("Isolation of 1 VPC is violated", "#attention")
        page.click("#attention a[href='/networks']")
        page.wait_for_text("leak: vpc blue to vpc red: tcp 22; the two VPCs are not peered", "#view")
        page.wait_for_text("before the last change", "#view")


def test_the_page_keeps_the_last_picture_without_its_controller_and_comes_back_by_itself(
    browser: Browser,
) -> None:
    (port,) = free_ports(1)  # no other program gets it between the two
    with browser.page() as page:
        with closing(DashboardSite(troubled_documents(), port)) as site:
            page.open(site.url)
            page.wait_for_text("problems", "#verdict")
        page.wait_for_text("No connection to the controller since", "#banner")
        assert page.run("document.querySelectorAll('.node').length") == 14
        again = DashboardSite(troubled_documents(), port)
        try:
            page.wait_for("document.querySelector('#banner').innerText === ''")
            state = again.documents["/api/state"]
            again.publish(
                "state",
                {**state, "boot": "second", "congested": [], "switches": {**state["switches"], "connected": [1] * 6}},
            )
            page.wait_for("!document.querySelector('#attention').innerText.includes('not connected')")
        finally:
            again.close()


def test_a_past_moment_is_shown_by_the_views_that_history_holds_and_by_no_other(
    browser: Browser, site: DashboardSite
) -> None:
    moment = site.documents["/api/state"]["at_ms"] - 60_000
    asked = []

    def recorded(query):
        asked.append(query)
        state = site.documents["/api/state"]
        links = {"utilisation": [1.0] * len(state["links"]["up"]), "pause_share": None}
        not_recorded = dict.fromkeys(("planned", "up", "drained", "cabling", "bad"))
        links |= not_recorded
        return {**state, **UNRECORDED, "congested": [], "links": links}

    site.documents["/api/at"] = recorded
    with browser.page() as page:
        page.open(f"{site.url}/fabric?at_ms={moment}")
        page.wait_for_text("The past:", "#banner")
        page.wait_for_text("No congestion was recorded", "#attention")  # it came: the rest is of that moment
        page.wait_for_text("which links were down or drained is in the timeline", "#view")
        assert asked[0] == f"at_ms={moment}"
        assert "beyond its plan" not in page.text()  # the plan of that moment is not known
        assert "✓" not in page.text("#verdict")  # nor what had failed
        for view in ("jobs", "networks", "health"):
            page.click(f"nav a[href='/{view}']")
            page.wait_for_text("Not recorded", "#view")
        page.click("nav a[href='/congestion']")
        page.wait_for_text("No port was congested", "#view")
        page.click("#banner button")
        page.wait_for_text("towards NIC h5-n0", "#view")
        assert "at_ms" not in page.run("location.search")


def test_a_past_moment_marks_the_links_that_were_down_and_drained(browser: Browser, site: DashboardSite) -> None:
    state = site.documents["/api/state"]
    links = site.documents["/api/fabric"]["links"]
    down = next(at for at, link in enumerate(links) if link["kind"] == "cable")
    drained = next(at for at, link in enumerate(links) if link["kind"] == "cable" and at > down + 2)

    def flags(which: int, yes: int) -> list[int]:
        return [yes if at // 2 == which // 2 else 1 - yes for at in range(len(links))]

    def recorded(_: str) -> object:
        figures: dict[str, object] = {"utilisation": [0.1] * len(links), "pause_share": None, "planned": None}
        figures |= {"up": flags(down, 0), "drained": flags(drained, 1), "cabling": None, "bad": None}
        return {**state, **UNRECORDED, "congested": [], "links": figures}

    site.documents["/api/at"] = recorded
    with browser.page() as page:
        page.open(f"{site.url}/fabric?at_ms={state['at_ms'] - 60_000}")
        name = "{node}:{port}".format
        page.wait_for_text(f"Link {name(**links[down]['from'])} – {name(**links[down]['to'])} is down", "#attention")
        assert page.run("document.querySelectorAll('.mark path.down').length") == 1
        assert page.run("document.querySelectorAll('.mark path.drained').length") == 1
        assert "1 problem" in page.text("#verdict")
        assert "down or drained is in the timeline" not in page.text()


def test_dragging_the_time_bar_changes_the_address(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        page.open(site.url + "/timeline")
        page.wait_for("document.querySelector('#time input')?.disabled === false")
        page.run(
            "(() => { const s = document.querySelector('#time input'); s.value = Number(s.min) + 30000;"
            "s.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )
        page.wait_for("location.search.includes('at_ms=')")
        page.wait_for_text("The past:", "#banner")


def test_a_drain_says_what_it_moves_asks_once_and_carries_the_token(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        page.open(site.url + "/fabric?switch=spine2")
        page.click("[data-action=drain]")
        page.wait_for_text("3 flows of job-0 would move.", "#dialog")
        assert [body["dry_run"] for _, _, body in site.posted] == [True]
        page.click("#dialog .danger")
        page.wait_for("document.querySelector('#dialog .danger') === null")
        path, token, body = site.posted[1]
        assert (path, token) == ("/api/actions/drain", "token")
        assert body == {"target": "spine2", "undrain": False, "dry_run": False}
        page.press("Escape")
        page.wait_for("!document.querySelector('#dialog').open")


def test_ranks_drawn_on_the_fabric_are_planned_and_nothing_else_is_sent(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        page.open(site.url + "/fabric?preview=1")
        for nic in ("h1-n0", "h5-n0"):
            page.click(f"[data-node={nic}] rect")
            page.wait_for_text(nic, "#preview fieldset")
        page.click("[data-preview=ranks]")
        page.wait_for_text("This plan", "#preview")
        (sent,) = site.posted
        assert sent[0] == "/api/actions/preview"
        assert sent[2]["ranks"] == ["h1-n0", "h5-n0"]
        assert sent[2]["collective"] == "RING_ALL_REDUCE"


def test_the_keyboard_reaches_a_port_of_a_switch(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        page.open(site.url)
        page.wait_for("document.querySelectorAll('.node').length === 14")
        stops = []
        for _ in range(40):
            page.press("Tab")
            stops.append(page.run("document.activeElement.dataset.node ?? document.activeElement.innerText ?? ''"))
            if stops[-1] in ("spine1", "leaf1"):
                break
        assert {"Fabric", "Matrix", "Jobs", "Health"} <= set(stops), stops
        page.press("ArrowRight")
        page.press("ArrowDown")
        node = page.run("document.activeElement.dataset.node")
        assert node.startswith(("leaf", "h")), node
        assert page.run("getComputedStyle(document.activeElement.querySelector('rect')).strokeWidth") == "3px"
        page.press("Enter")
        page.wait_for(f"location.search.includes('{node}')")
        if node.startswith("leaf"):
            page.wait_for(f"document.querySelector('.side a[href*=\"port={node}\"]') !== null")


def test_a_job_is_released_after_it_is_asked_once(browser: Browser, site: DashboardSite) -> None:
    with browser.page() as page:
        page.open(site.url + "/jobs/job-0")
        page.click("[data-action=release]")
        page.wait_for("document.querySelector('#dialog .danger')?.disabled === false")
        assert [(path, body) for path, _, body in site.posted] == [
            ("/api/actions/release", {"job": "job-0", "dry_run": True})
        ]
        page.click("#dialog .danger")
        page.wait_for_text("Released.", "#dialog")
        assert site.posted[1][2] == {"job": "job-0", "dry_run": False}


def test_a_jobs_file_that_is_pasted_is_planned(browser: Browser, site: DashboardSite) -> None:
    text = "version: 1\njobs:\n  - job_id: a\n"
    with browser.page() as page:
        page.open(site.url + "/fabric?preview=1")
        page.wait_for("document.querySelector('#preview textarea') !== null")
        page.type("#preview textarea", text)
        page.click("[data-preview=file]")
        page.wait_for_text("This plan", "#preview")
        assert site.posted[0][2] == {"jobs": text}


def test_a_large_fabric_is_a_canvas_on_which_switches_can_be_clicked_and_reached_by_keys(browser: Browser) -> None:
    fabric = fabric_document(parse_fabric(LARGE, "large"))
    assert len(fabric["links"]) > 1000
    state = {**drawn_state(fabric, 1), "congested": []}
    with (
        closing(DashboardSite({**troubled_documents(), "/api/fabric": fabric, "/api/state": state})) as site,
        browser.page() as page,
    ):
        page.open(site.url)
        page.wait_for("document.querySelector('.pane canvas') !== null")
        page.click_at(*page.wait_for(MIDDLE_OF_A_LEAF))
        page.wait_for("location.search === '?switch=leaf9'")
        page.wait_for("document.querySelector('[aria-label=\"Ports of leaf9\"]') !== null")
        page.run("document.querySelector('.pane canvas').focus()")
        page.press("ArrowRight")
        page.press("Enter")
        page.wait_for("location.search === '?switch=spine1'")
        assert page.errors == []
