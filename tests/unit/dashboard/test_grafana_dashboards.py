"""The dashboards of docs/grafana: as generated, in Grafana's schema, with expressions that Prometheus parses."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.grafana_dashboards import BOARDS, dashboard, files
from tests.support.metrics_catalogue import catalogued_metrics
from tests.unit.dashboard.test_alert_rules import NAME, run
from tests.unit.dashboard.test_metrics import promtool

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "grafana" / "dashboard.schema.json").read_text())
TYPES = {"string": str, "number": (int, float), "boolean": bool, "array": list, "object": dict, "null": type(None)}
LEGEND = re.compile(r"{{(\w+)}}")
OF_THE_SCRAPE = {"instance", "job"}


def faults(schema: dict, value: Any, where: str = "dashboard") -> Iterator[str]:
    """Yield where a value breaks a schema of the keywords that Grafana's has; an unknown keyword is an error."""
    assert schema.keys() <= {
        "$ref", "$schema", "definitions", "type", "enum", "const", "anyOf", "items", "required", "properties",
        "additionalProperties", "not",
    }  # fmt: skip
    if "$ref" in schema:
        yield from faults(SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]], value, where)
    if "anyOf" in schema and all(list(faults(one, value, where)) for one in schema["anyOf"]):
        yield f"{where}: fits none of the alternatives"
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{where}: {value!r} is not allowed"
    wanted = schema.get("type", [])
    kinds = tuple(TYPES[name] for name in ([wanted] if isinstance(wanted, str) else wanted))
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{where}: {value!r} is no {wanted}"
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from faults(schema.get("items", {}), item, f"{where}[{at}]")
    if isinstance(value, dict):
        yield from (f"{where}: {key} is missing" for key in schema.get("required", ()) if key not in value)
        known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for key, item in value.items():
            if key not in known and others is False:
                yield f"{where}: unknown key {key}"
            else:
                yield from faults(known.get(key, others if isinstance(others, dict) else {}), item, f"{where}.{key}")


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def targets() -> Iterator[tuple[str, str, str]]:
    """Yield panel, expression and legend of every target in the files."""
    for path in files():
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']}", target["expr"], target["legendFormat"]


def test_the_files_are_current():
    for path, text in files().items():
        assert path.read_text() == text, "run: python -m tests.support.grafana_dashboards"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_dashboard_has_the_schema_that_grafana_publishes(path):
    assert list(faults(SCHEMA, json.loads(path.read_text()))) == []


@pytest.mark.parametrize(
    ("key", "value"), [("title", 3), ("panel", []), ("graphTooltip", 7), ("panels", [{"title": "no type"}])]
)
def test_the_check_finds_what_the_schema_forbids(key, value):
    assert list(faults(SCHEMA, {**dashboard(BOARDS[0]), key: value}))


def test_what_grafanas_importer_needs_is_there_and_unambiguous():
    boards = [json.loads(path.read_text()) for path in files()]
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == len(BOARDS)
    for board in boards:
        assert "id" not in board, "an id is of one installation, and overwrites what has it"
        variables = {variable["name"] for variable in board["templating"]["list"]}
        used = set(re.findall(r"\$\{?([a-z]+)", json.dumps(board["panels"])))
        assert used <= variables, board["title"]
        cells = [
            (x, y)
            for grid in (panel["gridPos"] for panel in board["panels"])
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        ]
        assert len(cells) == len(set(cells)), "panels overlap"
        assert max(x for x, _ in cells) < 24


def test_every_metric_and_label_of_a_panel_is_in_the_catalogue():
    catalogue = catalogued_metrics()
    for panel, expression, legend in targets():
        named = NAME.findall(expression)
        assert named, panel
        assert set(named) <= catalogue.keys(), panel
        labels = {label for name in named for label in catalogue[name]} | OF_THE_SCRAPE
        assert set(LEGEND.findall(legend)) <= labels, panel
        assert set(re.findall(r"(\w+)=~", expression)) <= labels, panel


@pytest.mark.skipif(promtool() is None, reason="no promtool here: `make setup` takes it out of Debian's prometheus")
def test_prometheus_parses_every_expression(tmp_path):
    shown = [text.replace("$__rate_interval", "1m").replace("$switch", ".*") for _, text, _ in targets()]
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(shown)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    found = run("check", "rules", str(path))
    assert found.returncode == 0, found.stdout + found.stderr
