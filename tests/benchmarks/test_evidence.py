"""`make evidence`: each number of README belongs to a claim, and each claim to a verdict."""

import re
from pathlib import Path

import pytest

from heddle.benchmarks.evidence.claims import CLAIMS, COMMANDS, Claim
from heddle.benchmarks.evidence.page import Origin, claims_table, page
from heddle.benchmarks.evidence.run import Outcome, verdicts

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
NUMBER = re.compile(r"(?<![\w.,/-])\d[\d,.]*\d|(?<![\w.,/-])\d")
NAMES = ("Debian 12", "Apache-2.0", "GPL-2.0-only", "OpenFlow 1.3", "RoCEv2", "SRv6")
"""Names in README that have a digit and claim nothing."""


def text_of_readme() -> str:
    shown = re.sub(r"\]\([^)]*\)", "]", README)
    for name in NAMES:
        shown = shown.replace(name, "")
    return shown


def test_every_number_of_readme_stands_in_a_claim() -> None:
    claimed = " ".join(f"{each.quoted} {each.text}" for each in CLAIMS if each.quoted)
    assert len(NUMBER.findall(text_of_readme())) > 10
    assert set(NUMBER.findall(text_of_readme())) - set(NUMBER.findall(claimed)) == set()


def test_a_number_without_a_claim_is_found() -> None:
    assert NUMBER.findall("3.5x faster on 4,096 NICs, MRC-2, v1.2 and RoCEv2") == ["3.5x"[:3], "4,096"]


def test_readme_has_every_quoted_figure_and_its_bar_admits_it() -> None:
    quoted = [each for each in CLAIMS if each.quoted]
    assert [each.text for each in quoted if not re.search(rf"\| \**{re.escape(each.quoted)}\** \|", README)] == []
    assert [each.text for each in quoted if not each.holds(float(each.quoted.removesuffix(" %")))] == []


def test_the_page_of_evidence_lists_every_claim() -> None:
    assert claims_table(CLAIMS) in (ROOT / "docs" / "evidence.md").read_text(), claims_table(CLAIMS)


def test_the_first_lesson_and_its_picture_show_the_same_run() -> None:
    picture = (ROOT / "docs" / "images" / "demo.svg").read_text()
    lesson = (ROOT / "docs" / "first-steps.md").read_text().partition("```\n workload")[2].partition("```")[0]
    gains = re.findall(r"([\d.]+)x ", lesson)
    assert len(gains) == 3
    assert re.findall(r"([\d.]+)× ECMP", picture) == gains[1:]


def test_every_claim_has_one_bar_and_a_command() -> None:
    assert {claim.command for claim in CLAIMS} == set(COMMANDS)
    assert [each.text for each in CLAIMS if (each.at_least is None) == (each.at_most is None)] == []


@pytest.mark.parametrize(
    ("found", "word"),
    [({"x": 2}, "holds"), ({"x": 3}, "fails"), ({}, "not measured"), ({"x": None}, "not measured")],
)
def test_a_claim_holds_fails_or_is_not_measured(found: object, word: str) -> None:
    claim = Claim("x of it", "plan", lambda printed: float(printed["x"]), at_most=2)
    [verdict] = verdicts([claim], {"plan": Outcome(found, "", 1.0)})
    assert verdict.word == word


def test_a_command_that_fails_is_named_with_its_reason_and_the_others_are_judged() -> None:
    claims = [
        Claim("a", "plan", lambda printed: float(printed["x"]), at_least=1),
        Claim("b", "demo", lambda printed: float(printed["x"]), at_least=1, unit=" %"),
    ]
    outcomes = {"plan": Outcome(None, "exit status 3", 2.0), "demo": Outcome({"x": 1.5}, "", 3.0)}
    text = page(verdicts(claims, outcomes), outcomes, Origin("2026-11-30", "0123abc", "2 processors"))
    assert "1 of 2 claims hold, 0 fail, 1 could not be measured" in text
    assert "| a | at least 1 | exit status 3 | **not measured** |" in text
    assert "| b | at least 1 % | 1.5 % | **holds** |" in text
