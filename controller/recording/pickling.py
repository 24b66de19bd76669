"""Write the brain's values as pickles that are compact, and read back classes of a fixed list and nothing else.

One pickler writes a whole segment: a value that it has written before becomes a reference, so values that were one
object are one object after reading. The brain compares plans by identity.
"""

import enum
import io
import ipaddress
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import lru_cache
from types import ModuleType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

import heddle.controller.brain.converging
import heddle.controller.brain.lifecycle
import heddle.controller.brain.port_search
import heddle.controller.brain.state
import heddle.controller.brain.virtual_networks
import heddle.controller.model.cabling
import heddle.controller.model.effect
import heddle.controller.model.error
import heddle.controller.model.event
import heddle.controller.model.fabric
import heddle.controller.model.health
import heddle.controller.model.job
import heddle.controller.model.job_state
import heddle.controller.model.moves
import heddle.controller.model.network_event
import heddle.controller.model.placement
import heddle.controller.model.plan
import heddle.controller.model.port_layout
import heddle.controller.model.rule
import heddle.controller.model.tenant
import heddle.controller.rules.pipeline
import heddle.dataplane.config.balancers
import heddle.dataplane.config.desired
import heddle.dataplane.config.network
import heddle.probing.flow
from heddle.controller.brain.settings import Settings
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import DEFAULT_STEERING, Cable, Fabric, Nic, SteeredBy, Switch
from heddle.controller.model.health import Health
from heddle.controller.model.port_layout import SteeringLayout
from heddle.controller.model.srv6_settings import DEFAULT_SRV6, LastHop, Srv6, Style
from heddle.controller.model.steering import former_layout, layout_of
from heddle.controller.planner.ground.clos import Topology, topology_of
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.loads import LinkLoads
from heddle.controller.planner.ground.path_sets import PathSets, SprayedLoads
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.recording.batch import Batch, Decided
from heddle.controller.recording.names import recorded, recorded_name
from heddle.foundation.network import Network

_MODULES: tuple[ModuleType, ...] = (
    heddle.controller.brain.converging,
    heddle.controller.brain.lifecycle,
    heddle.controller.brain.virtual_networks,
    heddle.controller.brain.port_search,
    heddle.controller.brain.state,
    heddle.controller.model.cabling,
    heddle.controller.model.effect,
    heddle.controller.model.error,
    heddle.controller.model.event,
    heddle.controller.model.network_event,
    heddle.controller.model.fabric,
    heddle.controller.model.health,
    heddle.controller.model.job,
    heddle.controller.model.job_state,
    heddle.controller.model.moves,
    heddle.controller.model.placement,
    heddle.controller.model.plan,
    heddle.controller.model.port_layout,
    heddle.controller.model.rule,
    heddle.controller.model.tenant,
    heddle.controller.rules.pipeline,
    heddle.dataplane.config.balancers,
    heddle.dataplane.config.desired,
    heddle.dataplane.config.network,
    heddle.probing.flow,
)
_NARROW = (np.int8, np.int16, np.int32)


class UnknownClassError(pickle.UnpicklingError):
    """A recording names a class or function that is not on the list."""


class ValuePickler(pickle.Pickler):
    """Writes values of the brain. `fabric` is the fabric that all flow tables are about."""

    def __init__(self, file: IO[bytes], fabric: Fabric) -> None:
        super().__init__(file, protocol=5)
        self._fabric = fabric

    def reducer_override(self, value: Any) -> Any:
        """Return what rebuilds a value that is not written field by field."""
        match value:
            case enum.Enum():  # Python 3.11 would call getattr
                return type(value), (value.value,)
            case np.ndarray():
                narrow = _narrowed(value)
                return _array, (value.dtype.str, value.shape, narrow.dtype.str, narrow.tobytes())
            case np.generic():
                return _scalar, (value.dtype.str, value.item())
            case Topology() if value is topology_of(self._fabric):
                return topology_of, (self._fabric,)
            case Fabric():  # without its indices
                built = (value.name, value.switches, value.cables, value.nics, value.failed)
                block, style, last_hop = value.srv6
                named = ((block, style.value, last_hop.value),) if value.srv6 != DEFAULT_SRV6 else ()
                return _fabric, (*built, value.steered_by, layout_of(value), value.described, *named)
            case SprayedLoads():
                return SprayedLoads, (value._topology, value._flows, value._hops, value._sets)
            case LinkLoads():  # without what it has computed
                return LinkLoads, (value._topology, value._flows, value._hops)
            case InputError():
                return InputError, value.problems
        return NotImplemented


class ValueUnpickler(pickle.Unpickler):
    """Reads what a ValuePickler has written; raises UnknownClassError for anything else that a file names."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class or function of the list, also by a name that it has had."""
        found = _readable().get(recorded(module, name))
        if found is None:
            raise UnknownClassError(f"it names {module[:80]}.{name[:80]}, which no recording holds")
        return found


@lru_cache
def recorded_classes() -> Mapping[tuple[str, str], Any]:
    """Return the classes and functions that recordings may name, by their recorded names."""
    ours = (
        Batch,
        Decided,
        Flows,
        FlowTable,
        PathSets,
        Turns,
        LinkLoads,
        SprayedLoads,
        Network,
        topology_of,
        _array,
        _scalar,
        _fabric,
    )
    addresses = (ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv6Address, ipaddress.IPv6Network)
    named: tuple[Any, ...] = (*_classes(), Settings, *addresses, *ours)
    return {recorded_name(each): each for each in named}


@lru_cache
def _readable() -> dict[tuple[str, str], Any]:
    """Return what is allowed, by name; what is read of a dataclass may lack fields that it has got since."""
    return {key: _with_defaults(each) if is_dataclass(each) else each for key, each in recorded_classes().items()}


def _with_defaults(kind: Any) -> type:
    """Return a class that makes instances of a dataclass, whose fields have their defaults before others are set."""

    class Filled:
        def __new__(cls, *_: Any) -> Any:
            made: Any = object.__new__(kind)
            for each in fields(kind):
                if each.default_factory is not MISSING:
                    object.__setattr__(made, each.name, each.default_factory())
                elif each.default is not MISSING:
                    object.__setattr__(made, each.name, each.default)
            return made

    return Filled


def _classes() -> Iterator[type]:
    for module in _MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


def _narrowed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of integers in the narrowest type that holds them; others as they are."""
    if array.dtype != np.int64 or not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for kind in _NARROW:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    return array


def _array(kind: str, shape: tuple[int, ...], narrow: str, content: bytes) -> npt.NDArray[Any]:
    return np.frombuffer(content, dtype=narrow).astype(kind).reshape(shape)


def _scalar(kind: str, value: float) -> Any:
    return np.dtype(kind).type(value)


def _fabric(
    name: str, switches: tuple[Switch, ...], cables: tuple[Cable, ...], nics: tuple[Nic, ...], failed: Health,
    steered_by: SteeredBy = DEFAULT_STEERING, port_layout: SteeringLayout | None = None,
    described: tuple[Cable, ...] = (), srv6: tuple[int, str, str] | None = None,
) -> Fabric:  # fmt: skip
    """Return a fabric; recordings leave out the last where it is the default, and early ones also those before it."""
    found = Fabric(
        name=name, switches=switches, cables=cables, nics=nics, failed=failed, steered_by=steered_by,
        described=described,
    )  # fmt: skip
    if srv6 is not None:
        found = replace(found, srv6=Srv6(srv6[0], Style(srv6[1]), LastHop(srv6[2])))
    return replace(found, port_layout=port_layout or former_layout(found))


class Frame(io.RawIOBase):
    """A file that holds one record at a time, for an unpickler that reads many."""

    def __init__(self) -> None:
        self._content = io.BytesIO()

    def hold(self, content: bytes) -> None:
        """Replace the content."""
        self._content = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, fewer at the end."""
        return self._content.read(size)

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line."""
        return self._content.readline(size)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as the content goes."""
        return self._content.readinto(buffer)
