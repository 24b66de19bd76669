"""The commands of `heddle`: their names, one-line help and modules. A command's module is imported when it is needed.

Other distributions may add commands by entry points of the group `heddle.commands`. They can be run, but are not
listed: `heddle --help` neither imports nor searches them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "heddle.commands"


class Source(NamedTuple):
    """A command's one-line help and where it is defined."""

    help: str
    module: str
    attribute: str


COMMANDS = {
    "check": Source("Check fabric and jobs files.", "heddle.programs.console.options.offline", "check"),
    "check fabric": Source(
        "Check by probes if hashes can be steered.", "heddle.programs.console.fabric_check.options", "check"
    ),
    "check cabling": Source(
        "Name causes of wrong cables: LLDP or pings.", "heddle.programs.console.cabling_check.options", "check"
    ),
    "check sids": Source("Name wrong cables by pings over SRv6.", "heddle.programs.console.options.sids", "check"),
    "fabric": Source(
        "Compare and expand fabric files; put one in force.", "heddle.programs.console.options.fabric", "fabric"
    ),
    "plan": Source("Plan jobs offline, with proof.", "heddle.programs.console.options.offline", "plan"),
    "suggest": Source("Suggest NICs for a job offline.", "heddle.programs.console.options.offline", "suggest"),
    "import": Source(
        "Convert other formats to a fabric file.", "heddle.programs.console.options.offline", "import_file"
    ),
    "export": Source(
        "Write files for switches, NICs, schedulers, simulators.",
        "heddle.programs.console.options.export",
        "export",
    ),
    "run": Source("Run the controller.", "heddle.programs.console.options.service", "run"),
    "state": Source(
        "Create, check, copy or restore what survives a restart.", "heddle.programs.console.options.state", "state"
    ),
    "pki": Source("Issue, rotate and deny certificates.", "heddle.programs.console.options.pki", "pki"),
    "job": Source("Submit, show and release jobs.", "heddle.programs.console.options.job", "job"),
    "exec": Source("Run a job's command with planned paths.", "heddle.programs.console.launch.options", "exec_command"),
    "ports": Source(
        "Serve planned source ports to all jobs of this host.",
        "heddle.programs.console.launch.node.options",
        "ports_command",
    ),
    "slurm": Source("Plan the jobs of a Slurm cluster.", "heddle.programs.console.options.slurm", "slurm"),
    "topology": Source(
        "Show switches and links with their load.", "heddle.programs.console.options.service", "topology"
    ),
    "drain": Source(
        "Take a link, switch or port of a NIC out of use, without loss.",
        "heddle.programs.console.options.service",
        "drain",
    ),
    "explain": Source(
        "Explain the path of one flow, or its back end.", "heddle.programs.gateway.explain_options", "explain"
    ),
    "replay": Source("Decide recorded events again.", "heddle.programs.console.options.service", "replay"),
    "events": Source("Show or follow the event log.", "heddle.programs.console.options.service", "events"),
    "top": Source("Show port counters live.", "heddle.programs.console.options.service", "top"),
    "telemetry": Source("Record and replay telemetry.", "heddle.programs.console.telemetry.options", "telemetry"),
    "mqtt": Source("Configure the MQTT broker of the telemetry.", "heddle.programs.console.options.mqtt", "mqtt"),
    "vpc": Source("Manage VPCs, peerings, the border and gateways.", "heddle.programs.console.options.vpc", "vpc"),
    "gateway": Source("Run or inspect a VPC gateway.", "heddle.programs.gateway.gateway_options", "gateway"),
    "balancer": Source("Run or inspect an L4 load balancer.", "heddle.programs.gateway.balancer_options", "balancer"),
    "vtep": Source("Run a host's VTEP agent.", "heddle.programs.gateway.vtep_command", "vtep"),
    "verify": Source(
        "Verify the isolation of virtual networks, or SONiC's RoCE settings.",
        "heddle.programs.gateway.verify_options",
        "verify",
    ),
    "agent": Source(
        "Publish counters of switches and NICs by MQTT, or send probes.", "heddle.programs.agent.command", "agent"
    ),
    "demo": Source("Compare planned paths with ECMP on real packets.", "heddle.programs.lab.demo_command", "demo"),
    "lab": Source(
        "Build a fabric or virtual networks on this machine, to play with.", "heddle.programs.lab.lab_command", "lab"
    ),
    "bench": Source("Run benchmarks.", "heddle.programs.bench_command", "bench"),
}


class LazyGroup(TyperGroup):
    """A group of commands that imports a command when it runs or when its help is shown, and no other."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the table; to search all installed packages for more would double the time of --help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return one command; None if there is none of this name."""
        source = COMMANDS.get(cmd_name)
        if source is not None:
            return _command(cmd_name, getattr(import_module(source.module), source.attribute))
        entry = _entry_points().get(cmd_name)
        return None if entry is None else _command(cmd_name, entry.load())

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line per command, from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, source.help) for name, source in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments start with; an unknown name is an error with suggestions.

        A name may have two words: `heddle check fabric` is no file of that name.
        """
        if " ".join(args[:2]) in COMMANDS:
            args = [" ".join(args[:2]), *args[2:]]
        if args[0] not in COMMANDS:
            names: Any = dict.fromkeys(COMMANDS)
            self.commands = names  # `super` searches them for names like the unknown one
        return super().resolve_command(ctx, args)


def _entry_points() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # takes as long as all else that `heddle plan --help` imports

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _command(name: str, found: Any) -> Any:
    """Return Typer's command or group for a function or a Typer instance."""
    if isinstance(found, typer.Typer):
        group = get_group(found)
        group.name = name
        return group
    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    single.command(name)(found)
    return get_command(single)
