"""What of a fabric is free: how much of each GPU running jobs leave.

A GPU is known by its host and number; NICs of one host that name the same number share it. A NIC without a list of
GPUs stands for one GPU of its own. A request names NICs, not GPUs, so the GPU that a rank holds is worked out: the one
with the least room among those of its NIC that the share fits into. Ranks beyond what a NIC's GPUs hold (nobody keeps
a job from asking for that) fill them and are otherwise not counted.
"""

import weakref
from collections.abc import Iterable, Sequence

import numpy as np

from controller.model.fabric import Fabric
from controller.model.job import JobRequest
from controller.model.placement import WHOLE_GPU_MILLI
from controller.planner.jit import Ints

COMPUTE = "compute"


class Gpus:
    """The GPUs of a fabric's compute NICs; built once per fabric, never changed.

    GPUs of one host that the same NICs serve are a set: `set_of` names each GPU's, `nics_of_set` a set's NICs by their
    position in the fabric, `gpus_of_set` its GPUs. `gpus_of_nic` is by NIC id; NICs of other networks are not in it.
    """

    def __init__(self, fabric: Fabric) -> None:
        """Number the GPUs in the order of the fabric's NICs."""
        serving: dict[tuple[str, int], list[int]] = {}
        for position, nic in enumerate(fabric.nics):
            if nic.network == COMPUTE:
                # A NIC without GPUs gets one of a number that no file can name.
                for number in dict.fromkeys(nic.gpus or (-1 - position,)):
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
            for position in nics:
                self.gpus_of_nic.setdefault(fabric.nics[position].id, []).append(gpu)
        self.set_of: Ints = np.array(set_of, dtype=np.int64)
        self.first_nic: Ints = np.array([nics[0] for nics in self.nics_of_set], dtype=np.int64)
        self.shared = [number for number, nics in enumerate(self.nics_of_set) if len(nics) > 1]

    def room_milli(self, running: Iterable[JobRequest]) -> Ints:
        """Return how much of each GPU running jobs leave, in thousandths."""
        room = [WHOLE_GPU_MILLI] * len(self.set_of)
        for request in running:
            share = request.gpu_milli or WHOLE_GPU_MILLI
            for name in request.ranks:
                gpus = self.gpus_of_nic.get(name, ())
                if len(gpus) == 1:
                    room[gpus[0]] = max(0, room[gpus[0]] - share)
                    continue
                before = [room[gpu] for gpu in gpus]
                taken = taken_from(before, share) or _spilt(before, share)
                for gpu, milli in zip(gpus, taken, strict=True):
                    room[gpu] -= milli
        return np.array(room, dtype=np.int64)


_known: dict[int, tuple[weakref.ref[Fabric], Gpus]] = {}


def gpus_of(fabric: Fabric) -> Gpus:
    """Return a fabric's GPUs, numbered at the first call and kept as long as the fabric lives."""
    found = _known.get(id(fabric))
    if found is not None and found[0]() is fabric:
        return found[1]
    key, gpus = id(fabric), Gpus(fabric)
    _known[key] = (weakref.ref(fabric, lambda _: _known.pop(key, None)), gpus)
    return gpus


def taken_from(room_milli: Sequence[int], share_milli: int) -> list[int] | None:
    """Return what a rank takes of each GPU: idle ones whole, then the tightest fit for the rest; None where none fits.

    A rank of at most one GPU takes its share of a single one.
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


def _spilt(room_milli: Sequence[int], share_milli: int) -> list[int]:
    """Return what a rank takes that fits nowhere: all there is, from the roomiest GPU on."""
    taken = [0] * len(room_milli)
    for gpu in sorted(range(len(room_milli)), key=lambda gpu: -room_milli[gpu]):
        taken[gpu] = min(room_milli[gpu], share_milli)
        share_milli -= taken[gpu]
    return taken
