"""The commands of `heddle`: their names, one-line help and modules. A command's module is imported when it is needed.

Other packages add commands by entry points of the group `heddle.commands`. Their names and one-line help are here as
well, so that `heddle --help` neither imports nor searches them. An entry point that the table does not name can be run,
but is not listed.
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
    module: str = ""
    """Empty: the entry point of this name defines the command."""
    attribute: str = ""


COMMANDS = {
    "check": Source("Check fabric and jobs files.", "controller.cli.options.offline", "check"),
    "check fabric": Source("Check by probes if hashes can be steered.", "controller.cli.fabric_check.options", "check"),
    "plan": Source("Plan jobs offline, with proof.", "controller.cli.options.offline", "plan"),
    "import": Source("Convert other formats to a fabric file.", "controller.cli.options.offline", "import_file"),
    "export": Source("Write what a plan assumes as SONiC's config_db.", "controller.cli.options.export", "export"),
    "run": Source("Run the controller.", "controller.cli.options.service", "run"),
    "state": Source("Create, check, copy or restore what survives a restart.", "controller.cli.options.state", "state"),
    "pki": Source("Issue, rotate and deny certificates.", "controller.cli.options.pki", "pki"),
    "job": Source("Submit, show and release jobs.", "controller.cli.options.job", "job"),
    "exec": Source("Run a job's command with planned paths.", "controller.cli.launch.options", "exec_command"),
    "topology": Source("Show switches and links with their load.", "controller.cli.options.service", "topology"),
    "drain": Source("Take a link or switch out of use, without loss.", "controller.cli.options.service", "drain"),
    "explain": Source("Explain the path of one flow, or its back end.", "dataplane.service.explain_options", "explain"),
    "replay": Source("Decide recorded events again.", "controller.cli.options.service", "replay"),
    "events": Source("Show or follow the event log.", "controller.cli.options.service", "events"),
    "top": Source("Show port counters live.", "controller.cli.options.service", "top"),
    "telemetry": Source("Record and replay telemetry.", "controller.cli.telemetry.options", "telemetry"),
    "mqtt": Source("Configure the MQTT broker of the telemetry.", "controller.cli.options.mqtt", "mqtt"),
    "vpc": Source("Manage VPCs, peerings, the border and gateways.", "controller.cli.options.vpc", "vpc"),
    "gateway": Source("Run or inspect a VPC gateway."),
    "balancer": Source("Run or inspect an L4 load balancer."),
    "vtep": Source("Run a host's VTEP agent."),
    "verify": Source("Verify the isolation of virtual networks, or SONiC's RoCE settings."),
    "agent": Source("Publish counters of switches and NICs by MQTT, or send probes."),
    "demo": Source("Compare planned paths with ECMP on real packets."),
    "lab": Source("Build a fabric or virtual networks on this machine, to play with."),
    "bench": Source("Run benchmarks."),
}


class LazyGroup(TyperGroup):
    """A group of commands that imports a command when it runs or when its help is shown, and no other."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the table; to search all installed packages for more would double the time of --help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return one command; None if there is none of this name."""
        source = COMMANDS.get(cmd_name)
        if source is not None and source.module:
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
