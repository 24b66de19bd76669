"""`heddle state …` as commands: their options. What they do is in `controller.store.state_directory`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heddle.controller.model.error import InputError
from heddle.foundation.identity import TLS_VARIABLE
from heddle.programs.console.option import Json

if TYPE_CHECKING:
    from heddle.controller.store.etcd.state_in_etcd import Place

state = typer.Typer(
    help="What survives a restart of the controller: jobs, virtual networks, drains.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
State = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", envvar="HEDDLE_STATE",
        help="The state directory; default: /var/lib/heddle for root, ~/.local/state/heddle for others.",
    ),
]  # fmt: skip
Above = Annotated[
    int, typer.Option(metavar="GENERATION", min=0, help="The generation that a switch obeys, from the log.")
]

Etcd = Annotated[
    str | None,
    typer.Option("--etcd", metavar="ADDR:PORT,…", help="The state of several controllers; https:// for TLS."),
]
TlsOfEtcd = Annotated[
    str | None,
    typer.Option(
        "--tls", metavar="DIR", envvar=TLS_VARIABLE,
        help="With --etcd https://…: the directory of cert.pem, key.pem and ca.pem.",
    ),
]  # fmt: skip
From = Annotated[
    list[str] | None,
    typer.Option(
        "--from", metavar="JOURNAL",
        help="With --etcd: controllers that have used this journal use the one there from now on; the log names it.",
    ),
]  # fmt: skip
OfFabric = Annotated[str | None, typer.Option("--fabric", metavar="NAME", help="With --etcd: the fabric's name.")]


@state.command("init")
def init(
    directory: State = None, above: Above = 0, etcd: Etcd = None, fabric: OfFabric = None, tls: TlsOfEtcd = None,
    replaced: From = None,
) -> None:  # fmt: skip
    """Create an empty journal. With --above its generations are higher than one that switches obey already."""
    if etcd is not None:
        from heddle.controller.store.etcd import state_in_etcd

        place = _in_etcd(etcd, fabric, tls)
        print(f"{etcd}: an empty journal, epoch {state_in_etcd.init(place, above, replaced or ())}")
        return
    from heddle.controller.store import state_directory as store

    wanted = _directory(directory)
    print(f"{wanted}: an empty journal, epoch {store.init(wanted, above)}")


@state.command("adopt")
def adopt(
    above: Above = 0, etcd: Etcd = None, fabric: OfFabric = None, tls: TlsOfEtcd = None, replaced: From = None
) -> None:
    """Let several controllers use the journal that a restored snapshot has brought to etcd, with its jobs.

    Controllers refuse an etcd that is not the one that they have used. Make sure that the former one is out of use. The
    epoch rises, so that switches prefer the next leader.
    """
    if etcd is None:
        raise InputError("--etcd is missing: a single controller's journal is restored by `heddle state restore`")
    from heddle.controller.store.etcd import state_in_etcd

    journal, epoch = state_in_etcd.adopt(_in_etcd(etcd, fabric, tls), above, replaced or ())
    print(f"{etcd}: adopted, journal {journal}, epoch {epoch}")


@state.command("raise")
def raise_epoch(
    above: Above, directory: State = None, etcd: Etcd = None, fabric: OfFabric = None, tls: TlsOfEtcd = None
) -> None:
    """Let the next start have a generation above one that switches obey, while no controller runs.

    Several controllers may run: the one that leads begins again, with such a generation.
    """
    if etcd is not None:
        from heddle.controller.store.etcd import state_in_etcd

        print(f"{etcd}: epoch {state_in_etcd.raise_epoch(_in_etcd(etcd, fabric, tls), above)}")
        return
    from heddle.controller.store import state_directory as store

    wanted = _directory(directory)
    print(f"{wanted}: epoch {store.raise_epoch(wanted, above)}")


@state.command("check")
def check(
    directory: State = None, as_json: Json = False, etcd: Etcd = None, fabric: OfFabric = None, tls: TlsOfEtcd = None
) -> None:
    """Check every page and row of the journal, also while a controller uses it; exit status 2 where it is damaged."""
    wanted: str | Path
    if etcd is not None:
        from heddle.controller.store.etcd import state_in_etcd

        wanted, found = etcd, state_in_etcd.check(_in_etcd(etcd, fabric, tls))
    else:
        from heddle.controller.store import state_directory as store

        wanted = _directory(directory)
        found = store.check(wanted)
    text = ", ".join(f"{number} {name}" for name, number in found.items())
    print(json.dumps(found) if as_json else f"{wanted}: fine: {text}")


@state.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE")], directory: State = None, etcd: Etcd = None,
    fabric: OfFabric = None, tls: TlsOfEtcd = None,
) -> None:  # fmt: skip
    """Copy the journal to a new file, also while a controller uses it."""
    if etcd is not None:
        from heddle.controller.store.etcd import state_in_etcd

        state_in_etcd.backup(_in_etcd(etcd, fabric, tls), file)
    else:
        from heddle.controller.store import state_directory as store

        store.backup(_directory(directory), file)
    print(f"{file}: written")


@state.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE")], directory: State = None, above: Above = 0,
    etcd: Etcd = None, fabric: OfFabric = None, tls: TlsOfEtcd = None, replaced: From = None,
) -> None:  # fmt: skip
    """Replace the journal by a copy, while no controller runs; the one of before is kept beside it.

    The epoch rises above both, so that switches prefer the controller that starts next to any before. No switch is
    contacted: where one obeys a later generation, the log of the controller names it, and `heddle state raise` helps.
    """
    if etcd is not None:
        from heddle.controller.store.etcd import state_in_etcd

        epoch = state_in_etcd.restore(_in_etcd(etcd, fabric, tls), file, above, replaced or ())
        print(f"{etcd}: restored, epoch {epoch}")
        return
    from heddle.controller.store import state_directory as store

    wanted = _directory(directory)
    print(f"{wanted}: restored, epoch {store.restore(wanted, file, above)}")
    print("a switch that obeys a later generation refuses the controller; its log then names the command that helps")


def _directory(given: Path | None) -> Path:
    from heddle.controller.store import state_directory as store

    if given is not None and str(given) == store.NONE:
        raise InputError("--state: none has no journal; name a directory")
    return given if given is not None else store.default_directory()


def _in_etcd(etcd: str, fabric: str | None, tls: str | None) -> "Place":
    from heddle.controller.store.etcd.state_in_etcd import place_of

    if fabric is None:
        raise InputError("--etcd needs --fabric: the name in the fabric file")
    return place_of(etcd.split(","), fabric, tls)
