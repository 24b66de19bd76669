"""`heddle telemetry`: a stream of the bus to a file and back."""

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.option import Json

telemetry = typer.Typer(
    help="Keep a stream of telemetry in a file, and play it again.", no_args_is_help=True, rich_markup_mode=None
)


@telemetry.command("record")
def telemetry_record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The recording to write; it must not exist.")],
    broker: Annotated[str, typer.Option(metavar="HOST:PORT", help="The MQTT broker.")] = "127.0.0.1:1883",
    fabric: Annotated[str | None, typer.Option(metavar="NAME", help="One fabric's topics alone.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="End after so long; with SIGINT if left out.")] = None,
    max_bytes: Annotated[int, typer.Option(min=1_000, help="End when the file is as large as this.")] = 10**10,
    as_json: Json = False,
) -> None:
    """Write what agents publish to a file, with the times at which it came."""
    from controller.cli.telemetry import streams as command

    command.record(file, broker=broker, fabric=fabric, seconds=seconds, max_bytes=max_bytes, as_json=as_json)


@telemetry.command("replay")
def telemetry_replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording.")],
    broker: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Publish there; without one, print what the detector says.")
    ] = None,
    fabric: Annotated[
        Path | None, typer.Option(help="The fabric file; if left out, the ports are those in the recording.")
    ] = None,
    speed: Annotated[float, typer.Option(min=0.001, max=1e6, help="How many times as fast, with --broker.")] = 1.0,
    keep_times: Annotated[bool, typer.Option(help="With --broker: do not move the samples' times to now.")] = False,
    period_ms: Annotated[int, typer.Option(help="The detector's period, as the agents sampled.")] = 1_000,
    as_json: Json = False,
) -> None:
    """Play a recording: through the detector offline, or to a broker in the time it took."""
    from controller.cli.telemetry import streams as command

    command.replay(
        file,
        broker=broker,
        fabric=fabric,
        speed=speed,
        keep_times=keep_times,
        period_ms=period_ms,
        as_json=as_json,
    )
