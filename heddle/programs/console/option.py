"""Options that several commands share."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Server = Annotated[
    str,
    typer.Option(
        "--server", envvar="HEDDLE_SERVER",
        help="The controller's gRPC address, ADDR:PORT or unix:/PATH; of several all, with commas. For TLS the "
        "variable HEDDLE_TLS names the directory of `heddle pki issue`.",
    ),
]  # fmt: skip
AlgorithmName = Annotated[
    str,
    typer.Option("--algorithm", help="CONTRACT, or NCCL or NCCL_NO_PXN: the flows that NCCL has by every rail."),
]
DEFAULT_SERVER = "127.0.0.1:50051"
