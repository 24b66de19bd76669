"""`heddle telemetry` as commands: their options. What they do is in `streams`."""

from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import Json

telemetry = typer.Typer(help="Record telemetry to a file, and replay it.", no_args_is_help=True, rich_markup_mode=None)


@telemetry.command("record")
def telemetry_record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The recording to write; it must not exist.")],
    broker: Annotated[str, typer.Option(metavar="HOST:PORT", help="The MQTT broker.")] = "127.0.0.1:1883",
    fabric: Annotated[str | None, typer.Option(metavar="NAME", help="Only this fabric's topics.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Stop after so many seconds; at SIGINT if left out.")
    ] = None,
    max_bytes: Annotated[int, typer.Option(min=1_000, help="Stop when the file has this size.")] = 10**10,
    tls_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use TLS; CA of the broker's certificate.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Client certificate for TLS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of --tls-cert.")] = None,
    as_json: Json = False,
) -> None:
    """Write the messages of agents to a file, with their times of arrival."""
    from heddle.programs.console.telemetry import streams as command

    tls = {"ca_file": tls_ca, "certificate_file": tls_cert, "key_file": tls_key}
    command.record(file, broker=broker, tls=tls, fabric=fabric, seconds=seconds, max_bytes=max_bytes, as_json=as_json)


@telemetry.command("replay")
def telemetry_replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording.")],
    broker: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Publish there; if left out, print the conditions that the detector finds."
        ),
    ] = None,
    fabric: Annotated[
        Path | None, typer.Option(help="The fabric file; if left out, the ports are those in the recording.")
    ] = None,
    speed: Annotated[
        float, typer.Option(min=0.001, max=1e6, help="With --broker: the speed, 2 for twice as fast.")
    ] = 1.0,
    keep_times: Annotated[bool, typer.Option(help="With --broker: keep the samples' own timestamps.")] = False,
    period_ms: Annotated[int, typer.Option(help="The detector's period, as the agents sampled.")] = 1_000,
    as_json: Json = False,
) -> None:
    """Replay a recording: offline through the detector, or to a broker at the recorded pace."""
    from heddle.programs.console.telemetry import streams as command

    command.replay(
        file,
        broker=broker,
        fabric=fabric,
        speed=speed,
        keep_times=keep_times,
        period_ms=period_ms,
        as_json=as_json,
    )
