"""The options of the demo, parsed and checked before anything is built."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from heddle.controller.config import load_fabric, parse_fabric
from heddle.controller.config.text.document import read_text
from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.error import InputError, NoAdmissiblePlanError
from heddle.controller.model.fabric import Fabric, Role
from heddle.mininet_topos.demo.results.scenes import KINDS
from heddle.mininet_topos.demo.results.values import MODES
from heddle.mininet_topos.traffic.workloads import PAYLOAD_BYTES, WORKLOADS, Workload, build_workloads, compute_nics

DEFAULT_SPINES, DEFAULT_LEAVES, DEFAULT_HOSTS = 2, 4, 8
LINE_RATES_GBPS = (0.02, 0.016, 0.012, 0.008)
"""The line rates of a generated fabric without `--gbps`, in the order in which they are tried; see `line_rate`."""

DEFAULT_GBPS = LINE_RATES_GBPS[0]
MAX_HOP_PACKETS_PER_S = 50_000
"""The rate that software switches on one core forward without loss of their own; a packet counts at every switch."""

NO_SCENES = "none"
MAX_FLOWS = 1_000
MIN_FLOW_BPS = 50_000
"""At a lower rate the smallest flow, a packet on each of four queue pairs, takes too long for a demo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The checked options of a demo; `fabric_text` is the fabric file for the controller.

    `slower` is the same demo at the lower candidate rates, highest first, each with those below it; empty if a rate or
    a fabric was given.
    """

    fabric: Fabric
    fabric_text: str
    workloads: tuple[Workload, ...]
    kinds: tuple[str, ...]
    seeds: tuple[int, ...]
    modes: tuple[str, ...]
    scenes: tuple[str, ...]
    seconds: float
    slower: tuple["DemoOptions", ...] = ()

    @property
    def line_rate_bps(self) -> int:
        """Return the rate of the slowest NIC."""
        return min(nic.capacity_bps for nic in compute_nics(self.fabric))

    def parameters(self) -> dict[str, Any]:
        """Return the options that the report lists."""
        return {
            "fabric": self.fabric.name,
            "line_rate_bps": self.line_rate_bps,
            "workloads": list(self.kinds),
            "seeds": list(self.seeds),
            "modes": list(self.modes),
            "scenes": list(self.scenes),
            "seconds": self.seconds,
        }


def generated_fabric(spines: int | None, leaves: int | None, hosts: int | None, gbps: float | None) -> str:
    """Return the text of a spine-leaf fabric file; raises InputError if hosts are not a multiple of leaves."""
    leaves = DEFAULT_LEAVES if leaves is None else leaves
    hosts = DEFAULT_HOSTS if hosts is None else hosts
    if leaves < 1 or hosts < 1 or hosts % leaves:
        raise InputError(f"--hosts {hosts}: must be a multiple of --leaves {leaves}, every leaf has the same number")
    return (
        "version: 1\nname: demo\ngenerate:\n  kind: spine_leaf\n"
        f"  spines: {DEFAULT_SPINES if spines is None else spines}\n  leaves: {leaves}\n"
        f"  hosts_per_leaf: {hosts // leaves}\n  gbps: {Decimal(repr(DEFAULT_GBPS if gbps is None else gbps)):f}\n"
    )


def read_fabric(file: Path | None, sizes: dict[str, int | float | None]) -> tuple[Fabric, str]:
    """Return the fabric and the text of its file; raises InputError if both a file and sizes are given."""
    if file is None:
        text = generated_fabric(*sizes.values())  # type: ignore[arg-type]
        return parse_fabric(text, "the demo's fabric"), text
    given = [f"--{name}" for name, value in sizes.items() if value is not None]
    if given:
        raise InputError(f"{given[0]} is a size of the generated fabric: leave it out, or leave out --fabric")
    return load_fabric(file), read_text(file)


def chosen(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a comma-separated list in the order of `known`; raises InputError for an unknown name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise InputError(f"{option} {text}: {name!r} is none of {', '.join(known)}")
    if not names:
        raise InputError(f"{option} is empty: give one or more of {', '.join(known)}")
    return tuple(name for name in known if name in names)


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the distinct integers of a comma-separated list; raises InputError if an item is not an integer."""
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",") if part.strip()))
    except ValueError:
        raise InputError(f"--seeds {text}: must be whole numbers with commas, such as 1,2,3") from None
    if not found:
        raise InputError("--seeds is empty: give one or more whole numbers, such as 1,2,3")
    return found


def check_reach(fabric: Fabric) -> None:
    """Raise NoAdmissiblePlanError if a NIC does not reach all others."""
    for one in cut_off(fabric, fabric.failed):
        raise NoAdmissiblePlanError(f"host {one.host} is cut off: NIC {one.nic} does not reach all others, {one.why}")


def check_load(fabric: Fabric, kinds: Sequence[str]) -> None:
    """Raise InputError if software switches on one machine cannot carry the fabric's load."""
    nics = compute_nics(fabric)
    switches_on_path = 5 if any(switch.role is Role.AGG for switch in fabric.switches) else 3
    packets = sum(nic.capacity_bps for nic in nics) / (8 * PAYLOAD_BYTES) * switches_on_path
    if packets > MAX_HOP_PACKETS_PER_S:
        fitting = min(nic.capacity_bps for nic in nics) * MAX_HOP_PACKETS_PER_S / packets / 1e9
        raise InputError(
            f"{len(nics)} NICs at this rate are {packets:,.0f} packets per second through software switches,"
            f" which carry {MAX_HOP_PACKETS_PER_S:,}: give fewer hosts, or NICs of at most {_floor(fitting):g} Gbit/s"
        )
    rate = min(nic.capacity_bps for nic in nics) // (len(nics) - 1 if "all-to-all" in kinds else 1)
    if rate < MIN_FLOW_BPS:
        raise InputError(
            f"a flow would have {rate:,} bit/s, too little to measure: give NICs a rate at which it has"
            f" {MIN_FLOW_BPS:,}"
        )
    flows = len(nics) * (len(nics) - 1)
    if "all-to-all" in kinds and flows > MAX_FLOWS:
        raise InputError(
            f"an all-to-all of {len(nics)} NICs has {flows:,} flows, more than {MAX_FLOWS:,}: give fewer hosts"
        )


def _floor(value: float) -> float:
    """Round down to two significant digits, so that the suggested rate is within the limit."""
    digits = f"{value:.1e}".split("e")
    rounded = float(f"{value:.1e}")
    return rounded if rounded <= value else rounded - 10.0 ** (int(digits[1]) - 1)


def build_options(
    *,
    fabric_file: Path | None,
    sizes: dict[str, int | float | None],
    workloads: str,
    seeds: str,
    modes: str,
    scenes: str,
    seconds: float,
) -> DemoOptions:
    """Check all options together and return them; raises InputError."""
    if not 0.2 <= seconds <= 600:
        raise InputError(f"--seconds {seconds:g}: must be 0.2 to 600")
    kinds = chosen("--workloads", workloads, tuple(WORKLOADS))
    fabric, text = read_fabric(fabric_file, sizes)
    if several := next((nic.of for nic in fabric.nics if nic.of), None):
        raise InputError(f"NIC {several} has several ports: the demo has one plane, leave out `planes` and `ports`")
    numbers = seeds_of(seeds)
    planned = build_workloads(fabric, kinds, numbers, seconds)
    check_reach(fabric)
    check_load(fabric, kinds)
    wanted = chosen("--modes", modes, MODES)
    if not fabric.failed.whole and wanted != ("planned",):
        raise InputError(
            "the fabric has failed parts, which the static rules of the hashed modes do not know of:"
            " leave them out of the file, or give --modes planned"
        )
    options = DemoOptions(
        fabric=fabric,
        fabric_text=text,
        workloads=planned,
        kinds=kinds,
        seeds=numbers,
        modes=wanted,
        scenes=() if scenes == NO_SCENES else chosen("--scenes", scenes, KINDS),
        seconds=seconds,
    )
    return replace(options, slower=_slower(options, sizes) if fabric_file is None else ())


def _slower(options: DemoOptions, sizes: dict[str, int | float | None]) -> tuple[DemoOptions, ...]:
    """Return the demo at the lower candidate rates, with proportionally shorter flows; none if a rate was given."""
    found = []
    for gbps in LINE_RATES_GBPS[1:] if sizes.get("gbps") is None else ():
        fabric, text = read_fabric(None, {**sizes, "gbps": gbps})
        workloads = build_workloads(fabric, options.kinds, options.seeds, options.seconds)
        found.append(replace(options, fabric=fabric, fabric_text=text, workloads=workloads))
    return tuple(replace(at, slower=tuple(found[place:])) for place, at in enumerate(found, start=1))
