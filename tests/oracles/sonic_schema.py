"""Apply the facts of SONiC's YANG models (`tests/data/sonic/facts.yaml`) to a config_db.

It shares no code with `controller/sonic`. `yang_json` writes a config_db as the models' own data, for yanglint.
"""

import re
from pathlib import Path

import yaml

FACTS = yaml.safe_load((Path(__file__).parents[1] / "data" / "sonic" / "facts.yaml").read_text())
TABLES = {name: table for name, table in FACTS.items() if name.isupper()}
SWITCH = "DEVICE_METADATA"
"""What the switch is; its model is not among the facts."""
RANGES = {f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)} | {"int32": (-(2**31), 2**31 - 1)}


def schema_violations(config):
    """Return (table, key, field) of all that the models refuse; without a field the row, without a key the table."""
    found = set()
    for table, rows in config.items():
        if table == SWITCH:
            continue
        if table not in TABLES:
            found.add((table, "", ""))
            continue
        for key, row in rows.items():
            if not key_fits(TABLES[table]["keys"], key, config):
                found.add((table, key, ""))
            found |= {(table, key, field) for field in wrong_fields(TABLES[table], key, row, rows, config)}
    return found


def key_fits(kinds, key, config):
    parts = key.split("|")
    return len(parts) == len(kinds) and all(
        fits(kind, part, config) for kind, part in zip(kinds.values(), parts, strict=True)
    )


def wrong_fields(table, key, row, rows, config):
    if "entry" in table:
        name, kind = table["entry"].values()
        yield from (f for f, value in row.items() if not (fits(name, f, config) and fits(kind, value, config)))
        return
    switch = config.get(SWITCH, {}).get("localhost", {})
    yield from (
        field
        for field, kind in table["fields"].items()
        if field not in row and (kind.get("mandatory") or holds(kind.get("needed_with"), row))
    )
    if "sum" in table:
        parts = [row.get(field, str(least)) for field, least in table["sum"]["of"].items()]
        if all(re.fullmatch("-?[0-9]+", part) for part in parts) and sum(map(int, parts)) > table["sum"]["most"]:
            yield ""
    for field, value in row.items():
        kind = table["fields"].get(field)
        if kind is None or not value_fits(kind, value, config) or not condition_holds(kind, key, value, row, rows):
            yield field
            continue
        if not all(switch.get(other) == wanted for other, wanted in kind.get("of_switch", {}).items()):
            yield field


def holds(values, row):
    return values is not None and all(row.get(field) == value for field, value in values.items())


def value_fits(kind, value, config):
    if kind.get("text") and isinstance(value, str):
        value = value.split(",")
    if not kind.get("list"):
        return not isinstance(value, list) and fits(kind, value, config)
    if not isinstance(value, list) or len(set(value)) < len(value) or (len(value) > 1 and "all" in value):
        return False
    return all(fits(kind, each, config) for each in value)


def fits(kind, value, config):
    if value in kind.get("or", ()):
        return True
    if "ref" in kind:
        return value in config.get(kind["ref"], {})
    if kind.get("type") == "boolean":
        return value in ("true", "false")
    if "type" in kind:
        low, high = kind.get("range", RANGES[kind["type"]])
        return re.fullmatch("-?[0-9]+", value) is not None and low <= int(value) <= high
    low, high = kind.get("length", (0, len(value)))
    fitting = re.fullmatch(kind.get("pattern", ".*"), value, re.DOTALL) is not None
    return fitting and low <= len(value) <= high and ("enum" not in kind or value in kind["enum"])


def condition_holds(kind, key, value, row, rows):
    def number(other, of=row):
        return int(of[other]) if re.fullmatch("-?[0-9]+", of.get(other, "")) else None

    def least(*other):
        return number(*other) is not None and int(value) >= number(*other)

    row_of_all, shared = kind.get("at_least_in", (None, ""))
    return bool(
        ("at_least" not in kind or least(kind["at_least"]))
        and ("at_least_if_set" not in kind or kind["at_least_if_set"] not in row or least(kind["at_least_if_set"]))
        and ("positive" not in kind or number(kind["positive"]))
        and kind.get("without") not in row
        and ("only_with" not in kind or holds(kind["only_with"], row))
        and kind.get("row", key) == key
        and kind.get("not_row") != key
        and (row_of_all not in rows or least(shared, rows[row_of_all]))
    )


def yang_json(config):
    """Return a config_db as YANG data: rows become list entries by the key statements, a map's fields as well."""
    data = {}
    for table, rows in config.items():
        model = TABLES[table]
        top = Path(model["read"].split(" @ ")[0]).stem
        if set(model["keys"]) == {"name"} and "enum" in model["keys"]["name"]:
            inside = {key: fields_of(model, row) for key, row in rows.items()}  # a container for each key
        else:
            listed = [
                {**dict(zip(model["keys"], key.split("|"), strict=True)), **contents(table, model, row)}
                for key, row in rows.items()
            ]
            inside = {f"{table}_LIST": listed}
        data[f"{top}:{top}"] = {table: inside}
    return data


def contents(table, model, row):
    if "entry" not in model:
        return fields_of(model, row)
    (name, name_kind), (field, kind) = model["entry"].items()
    return {table: [{name: typed(name_kind, key), field: typed(kind, value)} for key, value in row.items()]}


def fields_of(model, row):
    return {field: typed(model["fields"].get(field, {}), value) for field, value in row.items()}


def typed(kind, value):
    """Return a value as JSON of YANG writes it (RFC 7951): 64-bit integers are texts, others numbers."""
    if isinstance(value, list):
        return [typed(kind, each) for each in value]
    if kind.get("type") == "boolean" and value in ("true", "false"):
        return value == "true"
    small = kind.get("type", "uint64") not in ("uint64", "boolean")
    return int(value) if small and re.fullmatch("-?[0-9]+", value) else value
