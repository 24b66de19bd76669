"""`heddle mqtt …` as commands: their options. What is written is in `controller.config.mosquitto`."""

from pathlib import Path
from typing import Annotated

import typer

from heddle.controller.model.server_address import split_address

mqtt = typer.Typer(
    help="Configure the MQTT broker of the telemetry.", no_args_is_help=True, rich_markup_mode=None
)  # a group, so that `heddle mqtt config` has its name while it is the only command


@mqtt.callback()
def _group() -> None:
    pass


@mqtt.command("config")
def config(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write mosquitto.conf and mosquitto.acl.")],
    certificate: Annotated[Path, typer.Option(metavar="FILE", help="The broker's certificate, PEM.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Its key; mosquitto's own user must be able to read it.")],
    ca: Annotated[Path, typer.Option(metavar="FILE", help="The authority of the fabric's certificates, PEM.")],
    controller: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="A controller, by its certificate: it reads all. Repeatable."),
    ],
    operator: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="An operator who may read all as well. Repeatable.")
    ] = None,
    crl: Annotated[Path | None, typer.Option(metavar="FILE", help="The authority's revocation list, PEM.")] = None,
    listen: Annotated[str, typer.Option(metavar="ADDR:PORT", help="Where the broker listens.")] = "0.0.0.0:8883",
) -> None:
    """Write the configuration of a mosquitto that admits certificates of the fabric alone, and its access rules.

    Each agent writes the topics of the switch or host that its certificate names, and reads nothing.
    """
    from heddle.controller.config import load_fabric
    from heddle.controller.config.mosquitto import ACCESS, CONFIG, BrokerFiles, mosquitto_access, mosquitto_config

    loaded = load_fabric(fabric)
    address, port = split_address(listen)
    files = BrokerFiles(address=address, port=port, certificate=certificate, key=key, ca=ca, revoked=crl)
    texts = {
        ACCESS: mosquitto_access(loaded, controller, operator or ()),
        CONFIG: mosquitto_config(loaded, files, out / ACCESS),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / name).write_text(text)
    print(f"{out}: {CONFIG} and {ACCESS}; run `mosquitto -c {out / CONFIG}`, or send SIGHUP to the one that runs")
