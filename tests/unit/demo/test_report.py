import json
import os
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.demo.report.fabric_drawing import draw_fabric, load_class
from heddle.mininet_topos.demo.report.folder import check_folder, write_report
from heddle.mininet_topos.demo.report.markup import Markup, tag
from heddle.mininet_topos.demo.report.page import report_page
from heddle.mininet_topos.demo.report.picture import picture, typical_workload
from heddle.mininet_topos.demo.report.scenes import scene_chart
from heddle.mininet_topos.demo.results.summary import ratio
from heddle.mininet_topos.demo.results.values import SCHEMA
from tests.fakes.demo_results import demo_result, spine_leaf, with_invalid_run
from tests.fakes.demo_scenes import FAILS, HOLDS, scene

RESULT = demo_result()
PAGE = report_page(RESULT)


def text_of(page):
    tree = ElementTree.fromstring(page.partition("\n")[2])
    return " ".join("".join(tree.itertext()).split())


def test_the_page_is_well_formed():
    ElementTree.fromstring(PAGE.partition("\n")[2])


def test_the_page_loads_nothing_and_runs_nothing():
    assert re.findall(r"https?://|<script|<link|@import|url\(|src=", PAGE) == []


def test_the_page_draws_the_fabric_and_the_flows_of_every_run():
    assert PAGE.count('class="fabric"') == len(RESULT.runs)
    assert PAGE.count("<article") == len(RESULT.runs)


def test_every_run_has_its_integrity_line():
    assert PAGE.count('class="integrity"') == len(RESULT.runs)


def test_every_picture_has_a_label():
    assert PAGE.count("<svg") == PAGE.count('role="img"') == PAGE.count("aria-label=")


def test_the_page_has_dark_and_print_styles():
    assert "prefers-color-scheme: dark" in PAGE
    assert "@media print" in PAGE


def test_the_page_shows_the_seeds_the_scale_and_the_certificates():
    text = text_of(PAGE)
    assert all(word in text for word in ("seeds 1, 2, 3", "1:5,000 in rate", "lower bound", "deadlock-free"))


def test_an_invalid_run_is_marked_and_not_compared():
    broken = with_invalid_run(RESULT, "permutation seed 1", "ecmp", "7 packets <are> missing")
    text = text_of(report_page(broken))
    assert "INVALID: 7 packets <are> missing" in text
    assert "not compared: the run is invalid" in text
    assert "14/15 runs valid" in text


def test_a_fabric_of_one_leaf_is_drawn_too():
    ElementTree.fromstring(
        report_page(demo_result(spine_leaf(spines=1, leaves=1, hosts_per_leaf=3))).partition("\n")[2]
    )


def test_a_demo_without_planned_runs_has_a_page():
    hashed = replace(RESULT, runs=tuple(run for run in RESULT.runs if run.mode != "planned"))
    assert "Certificates" not in text_of(report_page(hashed))


def test_a_scene_has_a_chart_of_both_runs_a_row_for_every_mark_and_its_verdict():
    page = report_page(replace(RESULT, scenes=(scene(HOLDS, FAILS),)))
    text = text_of(page)
    assert page.count('class="series planned"') == page.count('class="series ecmp"') == 1
    assert page.count('class="mark event"') == 1
    assert page.count('class="mark decision"') == 2
    assert all(mark.text in text for mark in scene().runs[0].marks)
    assert "0/1scenes hold" in text
    assert page.count('class="holds"') == page.count('class="fails"') == 1
    assert page.count("<svg") == page.count('role="img"') == page.count("aria-label=")


def test_marks_close_together_are_drawn_in_different_rows():
    circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="7.5"/>', scene_chart(scene()))
    assert len(circles) == 3
    for index, (x, y) in enumerate(circles):
        assert all(y != other_y or abs(float(x) - float(other_x)) >= 15 for other_x, other_y in circles[:index])


def test_the_json_holds_every_scene_and_whether_it_holds():
    (plain,) = replace(RESULT, scenes=(scene(HOLDS, FAILS),)).to_json()["scenes"]
    assert plain["holds"] is False
    assert [run["mode"] for run in plain["runs"]] == ["planned", "ecmp"]
    assert plain["runs"][0]["marks"][0]["text"] == "cable leaf1:1>spine1:1 is cut"
    assert json.loads(json.dumps(plain))["period_ns"] == 50_000_000


def test_names_from_a_fabric_file_are_text_and_not_markup():
    assert tag("b", "<i>&", title='a"b<') == "<b title='a\"b&lt;'>&lt;i&gt;&amp;</b>"
    assert tag("b", Markup("<i>x</i>")) == "<b><i>x</i></b>"


@pytest.mark.parametrize(
    ("offered", "name"),
    [(0.0, "idle"), (0.5, "light"), (1.0, "full"), (1.01, "over"), (2.0, "double"), (2.1, "worst")],
)
def test_a_links_colour_is_its_offered_load(offered, name):
    assert load_class(offered) == name


def test_each_direction_of_each_cable_is_a_line_of_its_own():
    run = RESULT.runs[0]
    drawing = draw_fabric(RESULT.fabric, {link.id: link for link in run.links}, "x")
    assert drawing.count('class="link') == 2 * (len(RESULT.fabric.cables) + len(RESULT.fabric.nics))


def test_the_picture_stands_alone():
    tree = ElementTree.fromstring(picture(RESULT))
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"


def test_the_picture_is_of_the_permutation_with_the_median_gain():
    names = ["permutation seed 1", "permutation seed 2", "permutation seed 3"]
    gains = [ratio(RESULT, name, "planned", "ecmp") or 0.0 for name in names]
    found = ratio(RESULT, typical_workload(RESULT), "planned", "ecmp")
    assert found == sorted(gains)[1]


def test_the_folder_holds_results_that_say_their_schema(tmp_path):
    write_report(RESULT, tmp_path)
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["schema"] == SCHEMA
    assert len(found["runs"]) == len(RESULT.runs)
    assert found["runs"][0]["flows"][0]["queue_pairs"][0]["links"]


def test_the_folder_holds_nothing_else_than_the_report(tmp_path):
    write_report(RESULT, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "report.html", "demo.svg"}


def test_files_written_under_sudo_belong_to_the_calling_user(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, owner, group: given.update({path.name: (owner, group)}))
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "1001")
    write_report(RESULT, tmp_path / "report")
    assert given == dict.fromkeys(["report", "results.json", "report.html", "demo.svg"], (1000, 1001))


def test_a_folder_that_was_there_keeps_its_owner(tmp_path, monkeypatch):
    given = set()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, *_: given.add(path.name))
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "1001")
    write_report(RESULT, tmp_path)
    assert given == {"results.json", "report.html", "demo.svg"}


def test_a_later_report_replaces_an_earlier_one(tmp_path):
    write_report(RESULT, tmp_path)
    write_report(replace(RESULT, notes=("second",)), tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["notes"] == ["second"]


def test_checking_a_folder_leaves_none(tmp_path):
    check_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_created_is_reported_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PrerequisiteError, match="name another with --report"):
        check_folder(tmp_path / "file" / "report")
