"""Find what SONiC's YANG models refuse in a config_db: `config load` with validation fails as a whole there.

Spellings of older releases, which the models do not know, are no refusals: `[TABLE|X]`, several ports in a key.
"""

from collections.abc import Callable, Iterator, Mapping

from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.kinds import ValueKind, integer
from heddle.controller.sonic.models import COLOURS, MODELS, Model
from heddle.controller.sonic.wording import Difference

_CHASSIS_TYPES = ("voq", "chassis-packet", "fabric")
_CHASSIS_SKUS = ("msft_four_asic_vs", "msft_multi_asic_vs")
GLOBAL = "GLOBAL"
_LENGTHS = {"block_len": 32, "node_len": 16, "func_len": 16, "arg_len": 0}
"""The lengths of a locator's parts in bits, with the models' defaults."""
ADDRESS_BITS = 128
_BEFORE_PIR_ALONE = " before sonic-buildimage#29314 (September 2026)"
"""Releases up to 202605 refuse a `pir` without `cir`; master accepts it since then."""


def refusals(config: ConfigDb) -> Iterator[Difference]:
    """Yield what the models refuse of the tables that they know here, in the order of the models."""
    optional = _optional_fields(config)
    by_host = config.metadata("switch_type") == "voq"
    for table, model in MODELS.items():
        if by_host and table in ("QUEUE", "BUFFER_QUEUE"):
            continue  # their keys name a host and an ASIC as well
        for key, row in config.tables.get(table, {}).items():
            yield from _key(config, model, table, key)
            for field in model.required:
                if field not in row and field not in optional:
                    reason = f"mandatory in {model.file}"
                    yield _refused(Place(table, key, field), "", model.fields[field].wanted, reason)
            for field, value in row.items():
                yield from _field(config, model, Place(table, key, field), value)
            if table in _CONDITIONS:
                yield from _CONDITIONS[table](config, key, row)


def _refused(place: Place, found: str, wanted: str, reason: str) -> Difference:
    return Difference(place, found, wanted, reason, refused=True)


def _optional_fields(config: ConfigDb) -> tuple[str, ...]:
    """Return `lanes` where the models ask for none, and for tables to be loaded on top of a switch's own."""
    chassis = config.metadata("switch_type") in _CHASSIS_TYPES or config.metadata("hwsku") in _CHASSIS_SKUS
    if chassis and not config.metadata("asic_name"):
        return ("lanes",)
    return () if config.is_whole() else ("lanes",)


def _key(config: ConfigDb, model: Model, table: str, key: str) -> Iterator[Difference]:
    parts = key.split("|")
    if len(parts) != len(model.keys):
        wanted = f"keys of {len(model.keys)} parts" if len(model.keys) > 1 else "keys without |"
        yield _refused(Place(table, key), key, wanted, model.file)
        return
    for kind, part in zip(model.keys, parts, strict=True):
        for each in part.split(",") if kind.table else (part,):
            if not _accepts(config, kind, each):
                yield _refused(Place(table, key), part, kind.wanted, model.file)


def _field(config: ConfigDb, model: Model, place: Place, value: object) -> Iterator[Difference]:
    if model.entries is not None:
        name, kind = model.entries
        if not _accepts(config, name, place.field):
            yield _refused(place, place.field, f"fields named {name.wanted}", model.file)
        elif not isinstance(value, str) or not _accepts(config, kind, value):
            yield _refused(place, config.value(place), kind.wanted, model.file)
        return
    if place.field not in model.fields:
        yield _refused(place, config.value(place), "no field of this name", model.file)
        return
    kind = model.fields[place.field]
    if place.field in model.texts and isinstance(value, str):
        value = [item.strip() for item in value.split(",")]
    if isinstance(value, list) != (place.field in model.lists):
        wanted = "a list" if place.field in model.lists else kind.wanted
        yield _refused(place, config.value(place), wanted, model.file)
        return
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) and _accepts(config, kind, item) for item in items):
        yield _refused(place, config.value(place), kind.wanted, model.file)
    elif len(set(items)) < len(items):
        yield _refused(place, config.value(place), "each item once", model.file)
    elif "all" in items and len(items) > 1:
        yield _refused(place, config.value(place), "all alone, or a list without it", model.file)


def _accepts(config: ConfigDb, kind: ValueKind, value: str) -> bool:
    if kind.table and config.has(kind.table, value.removeprefix(f"[{kind.table}|").removesuffix("]")):
        return True
    return kind.allows(value)


def _ordered(config: ConfigDb, low: Place, high: Place, reason: str) -> Iterator[Difference]:
    """Yield `high` where it is set and below `low`, or `low` is not set: a YANG comparison with nothing is false."""
    above, below = integer(config.value(high)), integer(config.value(low))
    if above is not None and (below is None or above < below):
        wanted = f"at least {low.field} ({'not set' if below is None else below})"
        yield _refused(high, config.value(high), wanted, reason)


def _wred(config: ConfigDb, key: str, row: Mapping[str, object]) -> Iterator[Difference]:
    for colour in COLOURS:
        low, high = (Place("WRED_PROFILE", key, f"{colour}_{end}_threshold") for end in ("min", "max"))
        yield from _ordered(config, low, high, MODELS["WRED_PROFILE"].file)


def _scheduler(config: ConfigDb, key: str, row: Mapping[str, object]) -> Iterator[Difference]:
    file = MODELS["SCHEDULER"].file
    places = {field: Place("SCHEDULER", key, field) for field in ("cir", "pir", "cbs", "pbs")}
    for low, high in (("cir", "pir"), ("cbs", "pbs")):
        if low in row:
            yield from _ordered(config, places[low], places[high], file)
    for needing, rate in (("pir", "cir"), ("cbs", "cir"), ("pbs", "pir")):
        if needing in row and not integer(config.value(places[rate])):
            reason = f"{file}{_BEFORE_PIR_ALONE}" if needing == "pir" else file
            yield _refused(places[needing], config.value(places[needing]), f"it only with a {rate} above 0", reason)


def _pool(config: ConfigDb, key: str, row: Mapping[str, object]) -> Iterator[Difference]:
    if "percentage" not in row:
        return
    place, file = Place("BUFFER_POOL", key, "percentage"), MODELS["BUFFER_POOL"].file
    if "size" in row:
        yield _refused(place, config.value(place), "it only without size", file)
    elif config.is_whole() and config.metadata("buffer_model") != "dynamic":
        wanted = "it only where DEVICE_METADATA|localhost buffer_model is dynamic"
        yield _refused(place, config.value(place), wanted, file)


def _watchdog(config: ConfigDb, key: str, row: Mapping[str, object]) -> Iterator[Difference]:
    file = MODELS["PFC_WD"].file
    for field in row:
        place = Place("PFC_WD", key, field)
        if field in MODELS["PFC_WD"].fields and (field == "POLL_INTERVAL") != (key == GLOBAL):
            wanted = f"it in row {GLOBAL} only" if field == "POLL_INTERVAL" else f"it in rows of ports, not in {GLOBAL}"
            yield _refused(place, config.value(place), wanted, file)
        elif field in ("detection_time", "restoration_time") and config.has("PFC_WD", GLOBAL):
            yield from _ordered(config, Place("PFC_WD", GLOBAL, "POLL_INTERVAL"), place, file)


def _locator(config: ConfigDb, key: str, row: Mapping[str, object]) -> Iterator[Difference]:
    lengths = [integer(str(row.get(field, default))) for field, default in _LENGTHS.items()]
    if None not in lengths and (total := sum(filter(None, lengths))) > ADDRESS_BITS:
        wanted = f"{' + '.join(_LENGTHS)} of at most {ADDRESS_BITS}"
        yield _refused(Place("SRV6_MY_LOCATORS", key), str(total), wanted, MODELS["SRV6_MY_LOCATORS"].file)


def _sid(config: ConfigDb, key: str, row: Mapping[str, object]) -> Iterator[Difference]:
    file, is_adjacency = MODELS["SRV6_MY_SIDS"].file, row.get("action") == "uA"
    if is_adjacency and "interface" not in row:
        yield _refused(Place("SRV6_MY_SIDS", key, "interface"), "", "a row of PORT, for a uA", file)
    if "adj" in row and not is_adjacency:
        place = Place("SRV6_MY_SIDS", key, "adj")
        yield _refused(place, config.value(place), "it only for a uA", file)


_CONDITIONS: Mapping[str, Callable[[ConfigDb, str, Mapping[str, object]], Iterator[Difference]]] = {
    "WRED_PROFILE": _wred,
    "SCHEDULER": _scheduler,
    "BUFFER_POOL": _pool,
    "PFC_WD": _watchdog,
    "SRV6_MY_LOCATORS": _locator,
    "SRV6_MY_SIDS": _sid,
}
