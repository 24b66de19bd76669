"""`heddle fabric …` as commands: their options. What they do is in `fabric_files.py` and `fabric_trial.py`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from heddle.controller.model.error import InputError
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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The fabric file that is to follow.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change for running jobs; the only form so far.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Show what a start of this controller with another fabric file would change, job by job and switch by switch.

    A running controller takes no other file: end it and start it with the new one, jobs and their packets go on. Exit
    status: 0 if it would start and no job notices; 1 if a job would be slower, or the start refused; 2 malformed.
    """
    if not dry_run:
        text = "--dry-run is needed: a controller takes another fabric file at its start, end it and start it with that"
        raise InputError(text)
    from heddle.programs.console.fabric_trial import try_file

    raise typer.Exit(try_file(server, file, as_json=as_json))


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
