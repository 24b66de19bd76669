"""The pipeline as data, and its page of documentation."""

from dataclasses import replace
from pathlib import Path

from heddle.controller.model.rule import Cookie, CookieKind, FlowRule, GotoTable, Match, Output
from heddle.controller.rules.pipeline import PIPELINE, Table, fits, markdown

ROOT = Path(__file__).parents[3]
TO_PINS = FlowRule(
    table=0,
    priority=30000,
    match=Match(eth_type=0x0800, ip_proto=17, udp_dst=4791),
    actions=(GotoTable(1),),
    cookie=Cookie(CookieKind.CLASSIFY).pack(),
)


def test_the_page_of_documentation_is_current():
    page = (ROOT / "docs" / "pipeline.md").read_text()
    assert page == markdown(), "run: python -m heddle.controller.rules.pipeline > docs/pipeline.md"


def test_tables_are_in_order_of_their_numbers_and_lead_to_later_ones_only():
    assert [spec.table for spec in PIPELINE] == list(Table)
    assert all(onward > spec.table for spec in PIPELINE for onward in spec.next)


def test_every_table_has_an_entry_for_packets_without_a_match():
    assert all(any(entry.low == 0 and not entry.fields for entry in spec.matches) for spec in PIPELINE)


def test_a_rule_that_is_none_of_its_tables_entries_does_not_fit():
    assert fits(TO_PINS)
    assert not fits(replace(TO_PINS, priority=29999))
    assert not fits(replace(TO_PINS, table=3))
    assert not fits(replace(TO_PINS, actions=(GotoTable(3),)))
    assert not fits(replace(TO_PINS, actions=(Output(1),)))
    assert not fits(replace(TO_PINS, match=Match(eth_type=0x0800, in_port=1)))
    assert not fits(replace(TO_PINS, cookie=Cookie(CookieKind.PIN).pack()))
    assert not fits(replace(TO_PINS, table=99))
