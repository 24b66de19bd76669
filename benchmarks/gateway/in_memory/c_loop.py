"""Compile the C loops with the layouts of the Python types, and call them."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.engine.burst import PACKET
from heddle.dataplane.gateway.memory.state import CONNECTION, TRANSLATED, State
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.schema import NEXT_HOP, VPC, Tables

SOURCE = Path(__file__).with_name("loops.c")
FLAGS = ("-O3", "-march=native", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


class CTables(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "vnis", "vni_slots", "vpcs", "vteps", "vtep_slots", "endpoints", "endpoint_slots", "hops", "templates",
            "own", "ports", "port_words", "connections", "slots", "slot_count", "generation",
            "seed",
        )
    ]  # fmt: skip


def compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


def built(directory: Path) -> Any:
    """Compile and load the library; raises RuntimeError with the compiler's first error."""
    name = compiler()
    if name is None:
        raise RuntimeError("no C compiler")
    library = directory / "loops.so"
    words = [f"-DOWN_ACTIVE_WORD={schema.OWN_ACTIVE}", f"-DTRANSLATED_FLAG={TRANSLATED}"]
    for macro, kind in (("PACKET", PACKET), ("NEXT_HOP", NEXT_HOP), ("CONNECTION", CONNECTION), ("VPC", VPC)):
        assert kind.names is not None
        words.append(f"-D{macro}_FIELDS=" + "".join(f"int64_t {field};" for field in kind.names))
    done = subprocess.run(
        [name, *FLAGS, *words, str(SOURCE), "-o", str(library)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.splitlines()[0] if done.stderr else 'failed'}")
    return ctypes.CDLL(str(library))


class CLoops:
    """The compiled loops on numpy arrays."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="heddle-loops-")
        self._repeat = built(Path(self._folder.name)).repeat
        self._repeat.restype = None

    def repeat(
        self, kind: int, memory: np.ndarray, pristine: np.ndarray, starts: np.ndarray, lengths: np.ndarray,
        packets: np.ndarray, rounds: int, vni: int, tables: Tables, state: State, now_ns: int,
    ) -> None:  # fmt: skip
        words = c_tables(tables, state)
        arrays = [ctypes.c_void_p(each.ctypes.data) for each in (memory, pristine, starts, lengths)]
        self._repeat(
            ctypes.c_int64(kind), *arrays, ctypes.c_int64(len(starts)), ctypes.c_void_p(packets.ctypes.data),
            ctypes.c_int64(rounds), ctypes.c_int64(vni), ctypes.byref(words), ctypes.c_int64(now_ns),
        )  # fmt: skip


def c_tables(tables: Tables, state: State) -> CTables:
    at = {
        name: each.ctypes.data
        for name, each in (
            ("vnis", tables.vnis), ("vpcs", tables.vpcs), ("vteps", tables.vteps), ("endpoints", tables.endpoints),
            ("hops", tables.next_hops), ("templates", tables.templates), ("own", tables.own),
            ("ports", tables.ports), ("connections", state.connections), ("slots", state.slots),
        )
    }  # fmt: skip
    return CTables(
        **at, vni_slots=len(tables.vnis), vtep_slots=len(tables.vteps), endpoint_slots=len(tables.endpoints),
        port_words=tables.ports.shape[1], slot_count=len(state.slots), generation=int(tables.generation[0]),
        seed=int(state.counts[SEED]),
    )  # fmt: skip
