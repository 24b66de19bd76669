"""`heddle pki …` as commands: their options. What they do is in `pki.py`."""

from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import Json

pki = typer.Typer(
    help="Certificates for controllers, switches, agents, gateways, tenants and operators.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the authority.")]


@pki.command("init")
def init(
    directory: Directory,
    fabric: Annotated[str, typer.Option(metavar="NAME", help="The fabric whose certificates it issues.")],
    as_json: Json = False,
) -> None:
    """Create the authority of a fabric. DIR holds its key: keep it on a machine that runs nothing else, and a copy.

    heddle pki init ca --fabric pod1
    """
    from heddle.programs.console import pki as command

    command.init(directory, fabric, as_json=as_json)


@pki.command("issue")
def issue(
    directory: Directory,
    role: Annotated[
        str,
        typer.Argument(
            metavar="ROLE",
            help="operator, viewer, tenant, agent, gateway, switch, controller; service for the broker and etcd.",
        ),
    ],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of a switch or gateway: its id; of an agent: its switch or host.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where cert.pem, key.pem and ca.pem are written.")],
    hours: Annotated[float, typer.Option(min=0.1, max=87_600, help="How long it is valid.")] = 24.0,
    dns: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A server's name as its clients use it; repeatable.")
    ] = None,
    ip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IP",
            help="A server's address as its clients use it; of an agent or gateway: a VTEP that is no NIC of its host "
            "in the fabric file. Repeatable.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Renew: replace the holder's files.")] = False,
    as_json: Json = False,
) -> None:
    """Issue a certificate with a new key. Running processes use replaced files from their next connection on.

    Issue anew before the end, from a timer. Copy the files by a channel that you trust; key.pem is a secret.

    heddle pki issue ca controller c1 --ip 10.0.0.9 --dns c1.pod1 --out c1

    heddle pki issue ca operator ada --out ~/.heddle-tls; export HEDDLE_TLS=~/.heddle-tls
    """
    from heddle.programs.console import pki as command

    holder = command.Holder(role=role, name=name, dns=dns or [], ips=ip or [])
    command.issue(directory, holder, out=out, hours=hours, replace=replace, as_json=as_json)


@pki.command("rotate")
def rotate(
    directory: Directory,
    end: Annotated[bool, typer.Option("--end", help="End a rotation: trust the old authority no more.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --end: also while its certificates are valid; they are refused then.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Replace the authority, without a moment at which all must change.

    The new one issues from now on. Holders of old files accept its certificates, and the other way round. Issue all
    certificates anew, then run it with --end. Copy ca.pem and crl.pem to mosquitto and etcd first.
    """
    from heddle.programs.console import pki as command

    command.rotate(directory, end=end, force=force, as_json=as_json)


@pki.command("deny")
def deny(
    directory: Directory,
    role: Annotated[str | None, typer.Argument(metavar="[ROLE", help="The holder's role.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME]", help="The holder: all its valid certificates.")] = None,
    serial: Annotated[
        list[str] | None, typer.Option(metavar="HEX", help="One certificate, by its serial number; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Revoke certificates: of a holder, or by serial number.

    Writes DIR/denied for controllers (tls.denied) and DIR/crl.pem for mosquitto and etcd. A controller reads its copy
    within a second of a change, ends the sessions and calls of these certificates, and admits no others.

    heddle pki deny ca gateway gw1
    """
    from heddle.programs.console import pki as command

    command.deny(directory, role, name, serials=serial or [], as_json=as_json)


@pki.command("pair-key")
def pair_key(file: Annotated[Path, typer.Argument(metavar="FILE", help="Must not exist.")]) -> None:
    """Write a new secret for a pair of gateways or balancers (partner.key_file): the same file on both machines."""
    from heddle.programs.console import pki as command

    command.pair_key(file)
