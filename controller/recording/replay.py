"""Decide recorded events again, and compare the decisions with the recorded ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heddle.controller.brain.decide import decide_all
from heddle.controller.model.effect import Effect
from heddle.controller.model.error import InputError
from heddle.controller.recording.batch import Batch, Decided, fault_text
from heddle.controller.recording.segment import SUFFIX, SegmentReader, decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A batch that was decided again: its effects, and how they differ from the recorded ones ("" if they do not)."""

    batch: Batch
    effects: tuple[Effect, ...]
    difference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A recording that ends (`cut`: within a record) before the next one begins."""

    path: Path
    cut: bool


def segments(path: Path, from_unix_ms: int = 0) -> list[Path]:
    """Return the files of a recording, oldest first, from the last that begins before a time; raises InputError."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(f"*{SUFFIX}"))
    if not found:
        raise InputError(f"{path}: no recording of heddle (*{SUFFIX}) in it")
    earlier = [file for file in found if file.name < f"{from_unix_ms:013d}-~"]
    return found[max(0, len(earlier) - 1) :]


def replay(path: Path) -> Iterator[Replayed | Gap]:
    """Yield each batch of one file, decided again, up to the first difference; raises InputError."""
    reader = SegmentReader(path)
    try:
        state = reader.state()
        if state is None:
            yield Gap(path=path, cut=True)
            return
        for batch in reader.batches():
            effects: tuple[Effect, ...] = ()
            fault = ""
            try:
                state, effects = decide_all(state, batch.events, batch.unix_ms)
            except Exception as raised:  # as the recorded process may have ended
                fault = fault_text(raised)
            difference = _difference(batch, tuple(decisions(effects, reader.digester)), fault)
            yield Replayed(batch=batch, effects=effects, difference=difference)
            if difference or fault:
                return
        yield Gap(path=path, cut=reader.cut)
    finally:
        reader.close()


def _difference(batch: Batch, made: tuple[Decided, ...], fault: str) -> str:
    """Return the first difference between recorded decisions and those made now; "" for none."""
    if fault != batch.fault:
        return f"recorded {batch.fault or 'no exception'}, now {fault or 'no exception'}"
    for number, (was, new) in enumerate(zip(batch.decided, made, strict=False), 1):
        if was.kind != new.kind:
            return f"decision {number}: recorded {was.kind}, now {new.kind}"
        if was.digest != new.digest:
            return f"decision {number}: {new.kind} with other values"
    if len(batch.decided) != len(made):
        return f"recorded {len(batch.decided)} decisions, now {len(made)}"
    return ""
