"""`heddle fabric …` as commands: their options. What they do is in `heddle.programs.console.fabric_files`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import Json

fabric = typer.Typer(help="Compare and expand fabric files offline.", no_args_is_help=True, rich_markup_mode=None)


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
