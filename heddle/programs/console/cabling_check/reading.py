"""Collect what ports hear: from files, from the sockets of lldpd, from the Redis of SONiC switches."""

import json
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from heddle.controller.cabling.sources import listed
from heddle.controller.config.text.complaint import MAX_LINES, one_line, shown
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, parse_document, read_text
from heddle.controller.model.error import InputError, PrerequisiteError, UnavailableError
from heddle.telemetry.agent.neighbours.sonic import read_neighbours
from heddle.telemetry.agent.source import SourceError
from heddle.telemetry.neighbours import lldpd, sonic
from heddle.telemetry.neighbours.advertised import Collected, NeighboursError

SUFFIXES = (".json", ".yaml", ".yml")
MAX_FILES = 20_000
READERS = 16
"""Switches that are read at the same time."""
TIMEOUT_S = 10.0

Listing = Mapping[str, object]
Reader = Callable[[str, str], Collected]


def read_path(path: Path) -> Collected | Listing:
    """Read a file, or a directory with a file for each node.

    A listing by the fabric's own names is returned as it is. Raises InputError with all problems.
    """
    if not path.is_dir():
        return _document(path.stem, _value(path), str(path))
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not files or len(files) > MAX_FILES:
        raise InputError(f"{one_line(str(path))}: must have a file NODE.json of each node, has {len(files):,}")
    found = Collected()
    problems: list[str] = []
    for file in files:
        try:
            read = _document(file.stem, _value(file), str(file))
            if not isinstance(read, Collected):
                raise InputError(f"{one_line(str(file))}: a list by the fabric's names is a file of its own")
            found.add(read)
        except InputError as error:
            problems += error.problems
    if problems:
        more = [f"(+{len(problems) - MAX_LINES} more)"] if len(problems) > MAX_LINES else []
        raise InputError(*problems[:MAX_LINES], *more)
    return found


def read_lldpd(sockets: Sequence[str]) -> Collected:
    """Query the lldpd of each `NODE=PATH`, without any of this machine; a daemon that does not reply is named."""
    targets = _pairs("--socket", "NODE=PATH", sockets) or {socket.gethostname(): ""}
    return _gathered(targets, lambda node, path: lldpd.neighbours(node, _lldpcli(node, path)))


def read_sonic(urls: Sequence[str]) -> Collected:
    """Read the Redis of each `SWITCH=URL`; a switch that does not reply is named."""
    targets = _pairs("--redis", "SWITCH=URL", urls)
    if not targets:
        raise InputError("--source sonic needs --redis SWITCH=URL, such as leaf1=redis://10.0.0.1:6379")
    for switch, url in targets.items():
        if not url.startswith(("redis://", "rediss://", "unix://")):
            raise InputError(f"--redis {one_line(switch)}: must be a URL such as redis://10.0.0.1:6379")
    return _gathered(targets, lambda switch, url: sonic.neighbours(switch, read_neighbours(url)))


def _gathered(targets: Mapping[str, str], read: Reader) -> Collected:
    def one(target: tuple[str, str]) -> Collected:
        try:
            return read(*target)
        except SourceError as error:
            return Collected(unread=[one_line(f"{target[0]}: {error}")])
        except NeighboursError as error:
            raise InputError(one_line(str(error))) from None
        except ValueError as error:
            raise InputError(one_line(f"{target[0]}: {error}")) from None

    found = Collected()
    with ThreadPoolExecutor(READERS) as pool:
        for each in pool.map(one, targets.items()):
            found.add(each)
    if len(found.unread) == len(targets):
        raise UnavailableError("; ".join(found.unread[:MAX_LINES]))
    return found


def _lldpcli(node: str, path: str) -> object:
    words = ["lldpcli", *(["-u", path] if path else []), "-f", "json0", "show", "neighbors"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise PrerequisiteError("lldpcli is not installed: apt-get install lldpd, or name a file") from None
    except subprocess.TimeoutExpired:
        raise SourceError(f"lldpcli did not end in {TIMEOUT_S:.0f} s") from None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().rpartition("] ")[2]  # after the time and [WARN/control]
        raise SourceError(why or f"lldpcli ended with {done.returncode}")
    return _json(done.stdout.decode(errors="replace"), node)


def _value(path: Path) -> Mapping[str, object]:
    text = read_text(path, MAX_SETTINGS_BYTES)
    if text.lstrip()[:1] not in ("{", "["):
        return parse_document(text, one_line(str(path))).value
    value = _json(text, one_line(str(path)))
    if not isinstance(value, dict):
        raise InputError(f"{one_line(str(path))}: must be an object, is a list")
    return value


def _json(text: str, name: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise InputError(f"{name}: nested too deep") from None
    except ValueError as error:
        raise InputError(one_line(f"{name}: no JSON: {error}")) from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = Counter(key for key, _ in pairs)
        raise ValueError(f"key {shown(keys.most_common(1)[0][0])} twice in one object")
    return found


def _document(node: str, value: Mapping[str, object], name: str) -> Collected | Listing:
    """Return what a document has, by its keys: of one node, of several by node, or a listing."""
    if listed.KEYS & value.keys():
        return value
    try:
        if lldpd.KEY in value:
            return lldpd.neighbours(node, value)
        if any(key.startswith((sonic.ENTRY, sonic.PORT)) for key in value):
            return sonic.neighbours(node, value)
        nodes = {key: each for key, each in value.items() if isinstance(each, dict)}
        if not value or len(nodes) < len(value):
            raise InputError(
                "neither a list (heard, down), nor lldpcli's JSON (lldp), nor SONiC's rows, nor these by node"
            )
        found = Collected()
        for each, document in nodes.items():
            read = _document(each, document, name) if listed.KEYS.isdisjoint(document) else None
            if not isinstance(read, Collected):
                raise InputError(f"{each}: a list by the fabric's names is a file of its own")
            found.add(read)
        return found
    except (InputError, NeighboursError) as error:
        problems = error.problems if isinstance(error, InputError) else (str(error),)
        raise InputError(
            *(one_line(text if text.startswith(name) else f"{name}: {text}") for text in problems)
        ) from None


def _pairs(option: str, form: str, texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value or name in found:
            raise InputError(f"{option} {one_line(text)}: must be {form}, each node once")
        found[name] = value
    return found
