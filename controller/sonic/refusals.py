"""Find what SONiC's YANG models refuse in a config_db: `config load` with validation fails as a whole there.

Spellings of older releases, which the models do not know, are no refusals: `[TABLE|X]`, several ports in a key.
"""

from collections.abc import Callable, Iterator, Mapping

from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.kinds import ValueKind, integer
from heddle.controller.sonic.models import MODELS, Model
from heddle.controller.sonic.wording import Difference

_MARKING = {
    "green": ("ecn_green", "ecn_green_yellow", "ecn_green_red", "ecn_all"),
    "yellow": ("ecn_yellow", "ecn_green_yellow", "ecn_yellow_red", "ecn_all"),
    "red": ("ecn_red", "ecn_green_red", "ecn_yellow_red", "ecn_all"),
}
_CHASSIS_TYPES = ("voq", "chassis-packet", "fabric")
_CHASSIS_SKUS = ("msft_four_asic_vs", "msft_multi_asic_vs")
GLOBAL = "GLOBAL"


def refusals(config: ConfigDb) -> Iterator[Difference]:
    """Yield what the models refuse of the tables that they know here, in the order of the models."""
    optional = _optional_fields(config)
    by_host = config.value(Place("DEVICE_METADATA", "localhost", "switch_type")) == "voq"
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
    meta = {name: config.value(Place("DEVICE_METADATA", "localhost", name)) for name in ("switch_type", "hwsku")}
    chassis = meta["switch_type"] in _CHASSIS_TYPES or meta["hwsku"] in _CHASSIS_SKUS
    if chassis and not config.value(Place("DEVICE_METADATA", "localhost", "asic_name")):
        return ("lanes",)
    return () if any("lanes" in row for row in config.tables.get("PORT", {}).values()) else ("lanes",)


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
    file, mode = MODELS["WRED_PROFILE"].file, row.get("ecn")
    for colour, modes in _MARKING.items():
        for own in ("", "ecn_"):
            low, high = (Place("WRED_PROFILE", key, f"{own}{colour}_{end}_threshold") for end in ("min", "max"))
            yield from _ordered(config, low, high, file)
        for field in ("min_threshold", "max_threshold", "mark_probability"):
            place = Place("WRED_PROFILE", key, f"ecn_{colour}_{field}")
            if place.field in row and mode not in modes:
                yield _refused(place, config.value(place), f"it only where ecn marks {colour}", file)


def _scheduler(config: ConfigDb, key: str, row: Mapping[str, object]) -> Iterator[Difference]:
    file = MODELS["SCHEDULER"].file
    places = {field: Place("SCHEDULER", key, field) for field in ("cir", "pir", "cbs", "pbs")}
    for low, high in (("cir", "pir"), ("cbs", "pbs")):
        if low in row:
            yield from _ordered(config, places[low], places[high], file)
    for burst, rate in (("cbs", "cir"), ("pbs", "pir")):
        if burst in row and not integer(config.value(places[rate])):
            yield _refused(places[burst], config.value(places[burst]), f"it only with a {rate} above 0", file)


def _watchdog(config: ConfigDb, key: str, row: Mapping[str, object]) -> Iterator[Difference]:
    file = MODELS["PFC_WD"].file
    for field in row:
        place = Place("PFC_WD", key, field)
        if field in MODELS["PFC_WD"].fields and (field == "POLL_INTERVAL") != (key == GLOBAL):
            wanted = f"it in row {GLOBAL} only" if field == "POLL_INTERVAL" else f"it in rows of ports, not in {GLOBAL}"
            yield _refused(place, config.value(place), wanted, file)
        elif field in ("detection_time", "restoration_time") and config.has("PFC_WD", GLOBAL):
            yield from _ordered(config, Place("PFC_WD", GLOBAL, "POLL_INTERVAL"), place, file)


_CONDITIONS: Mapping[str, Callable[[ConfigDb, str, Mapping[str, object]], Iterator[Difference]]] = {
    "WRED_PROFILE": _wred,
    "SCHEDULER": _scheduler,
    "PFC_WD": _watchdog,
}
