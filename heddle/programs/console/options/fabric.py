"""`heddle fabric …` as commands: their options. What they do is in `fabric_files.py` and `fabric_apply.py`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import DEFAULT_SERVER, Json, Server

fabric = typer.Typer(
    help="Compare and expand fabric files, and try one on a running controller.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@fabric.command("diff")
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="The fabric file that jobs run with.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The fabric file that is to follow.")],
    as_json: Json = False,
) -> None:
    """Show what differs between two fabric files, by the ids of their parts, and whether running jobs could notice it.

    Source ports are compared by the layout of A: a cable more within its room changes no port. Exit status: 0 same for
    running jobs; 1 something is gone, moved, slower, renamed or beyond the room of ports; 2 malformed.
    """
    from heddle.programs.console.fabric_files import diff as command

    raise typer.Exit(command(before, after, as_json, sys.stdout))


@fabric.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The fabric file that is to be in force.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Put another fabric file in force at a running controller: a rack more, a switch replaced, another rate.

    Running jobs keep paths and ports. A file that they do not fit is refused, and the first of them is named. What is
    to be gone has to be drained before. The controller begins again with the file, as after a restart: switches forward
    meanwhile, and callers connect again. Agents and the broker have copies of the file.

    Exit status of a dry run: 0 if no job would notice; 1 if one would be slower, or the file refused; 2 malformed.
    """
    from heddle.programs.console.fabric_apply import apply_file

    raise typer.Exit(apply_file(server, file, dry_run=dry_run, as_json=as_json))


@fabric.command("show")
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The fabric file.")],
    expand: Annotated[
        bool, typer.Option("--expand", help="Print the file with every part listed instead of `generate`.")
    ] = False,
) -> None:
    """Show how many parts a fabric file has, or write all of them out.

    Editing `generate` renames what exists: one spine more moves every NIC by a port. A file with listed parts, and with
    every datapath id, can be added to.
    """
    from heddle.programs.console.fabric_files import show as command

    command(file, expand=expand, out=sys.stdout)
