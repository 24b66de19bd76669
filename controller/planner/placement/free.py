"""Compute the free part of each GPU of a fabric beside running jobs.

A GPU is identified by its host and number; NICs of one host that name the same number share it. A NIC without a list of
GPUs stands for one GPU of its own. A request names NICs, not GPUs, so the GPU of a rank is derived: the one with
the least free part among those of its NIC that its share fits into. Ranks beyond what the GPUs of a NIC hold, which a
job may request, fill them and do not count otherwise.
"""

import weakref
from collections.abc import Iterable, Sequence

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.placement import WHOLE_GPU_MILLI
from heddle.controller.planner.ground.jit import Ints
from heddle.foundation.network import Network


class Gpus:
    """The GPUs of a fabric's compute NICs; immutable.

    GPUs of one host with the same NICs are a set: `set_of` is the set of each GPU, `nics_of_set` the NICs of a set by
    position in the fabric, `gpus_of_set` its GPUs. `gpus_of_nic` is by NIC id and has only compute NICs.
    """

    def __init__(self, fabric: Fabric) -> None:
        """Number the GPUs in the order of the fabric's NICs."""
        serving: dict[tuple[str, int], list[int]] = {}
        first: dict[str, int] = {}
        for position, nic in enumerate(fabric.nics):
            if nic.network == Network.COMPUTE:
                # A NIC without GPUs has one, with a number that no file can contain.
                for number in dict.fromkeys(nic.gpus or (-1 - first.setdefault(nic.rank, position),)):
                    serving.setdefault((nic.host, number), []).append(position)
        self.gpus_of_nic: dict[str, list[int]] = {}
        self.gpus_of_set: list[list[int]] = []
        self.nics_of_set: list[tuple[int, ...]] = []
        sets: dict[tuple[int, ...], int] = {}
        set_of = []
        for gpu, nics in enumerate(serving.values()):
            number = sets.setdefault(tuple(nics), len(sets))
            if number == len(self.gpus_of_set):
                self.gpus_of_set.append([])
                self.nics_of_set.append(tuple(nics))
            self.gpus_of_set[number].append(gpu)
            set_of.append(number)
            for name in dict.fromkeys(name for at in nics for name in (fabric.nics[at].id, fabric.nics[at].rank)):
                self.gpus_of_nic.setdefault(name, []).append(gpu)
        self.set_of: Ints = np.array(set_of, dtype=np.int64)
        self.first_nic: Ints = np.array([nics[0] for nics in self.nics_of_set], dtype=np.int64)
        self.shared = [number for number, nics in enumerate(self.nics_of_set) if len(nics) > 1]

    def room_milli(self, running: Iterable[JobRequest]) -> Ints:
        """Return the free part of each GPU beside running jobs, in thousandths."""
        room = [WHOLE_GPU_MILLI] * len(self.set_of)
        for request in running:
            share = request.gpu_milli or WHOLE_GPU_MILLI
            for name in request.ranks:
                gpus = self.gpus_of_nic.get(name, ())
                if len(gpus) == 1:
                    room[gpus[0]] = max(0, room[gpus[0]] - share)
                    continue
                before = [room[gpu] for gpu in gpus]
                taken = taken_from(before, share) or _overflow(before, share)
                for gpu, milli in zip(gpus, taken, strict=True):
                    room[gpu] -= milli
        return np.array(room, dtype=np.int64)


_known: dict[int, tuple[weakref.ref[Fabric], Gpus]] = {}


def gpus_of(fabric: Fabric) -> Gpus:
    """Return a fabric's GPUs, numbered on the first call and kept as long as the fabric exists."""
    found = _known.get(id(fabric))
    if found is not None and found[0]() is fabric:
        return found[1]
    key, gpus = id(fabric), Gpus(fabric)
    _known[key] = (weakref.ref(fabric, lambda _: _known.pop(key, None)), gpus)
    return gpus


def taken_from(room_milli: Sequence[int], share_milli: int) -> list[int] | None:
    """Return what a rank takes of each GPU: idle ones whole, the rest from the tightest fit; None where none fits.

    A rank of at most one GPU takes its share of a single GPU.
    """
    whole, part = divmod(share_milli, WHOLE_GPU_MILLI)
    taken = [0] * len(room_milli)
    for gpu, room in enumerate(room_milli):
        if whole and room == WHOLE_GPU_MILLI:
            taken[gpu] = WHOLE_GPU_MILLI
            whole -= 1
    fitting = [(room, gpu) for gpu, room in enumerate(room_milli) if room >= part and not taken[gpu]]
    if whole or (part and not fitting):
        return None
    if part:
        taken[min(fitting)[1]] = part
    return taken


def _overflow(room_milli: Sequence[int], share_milli: int) -> list[int]:
    """Return what a rank takes that fits on no GPU: all that is free, from the emptiest GPU on."""
    taken = [0] * len(room_milli)
    for gpu in sorted(range(len(room_milli)), key=lambda gpu: -room_milli[gpu]):
        taken[gpu] = min(room_milli[gpu], share_milli)
        share_milli -= taken[gpu]
    return taken
