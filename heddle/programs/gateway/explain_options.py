"""Command-line options of `heddle explain`: a job's flow in the fabric, or a flow to a virtual IP."""

from typing import Annotated

import typer

from heddle.controller.model.error import InputError
from heddle.programs.console.option import DEFAULT_SERVER, Json, Server


def explain(
    flow_id: Annotated[
        str | None, typer.Argument(metavar="[FLOW]", help="JOB/COLLECTIVE/SRC_RANK-DST_RANK/QUEUE_PAIR")
    ] = None,
    vip: Annotated[
        str | None, typer.Option(metavar="VPC/VIP:PORT", help="Instead of FLOW: a virtual IP and port.")
    ] = None,
    client: Annotated[
        str | None, typer.Option("--from", metavar="CLIENT:PORT", help="With --vip: the client of a new flow.")
    ] = None,
    balancer: Annotated[
        list[str] | None, typer.Option("--balancer", metavar="ID", help="Only this balancer; may be repeated.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Explain the path of a flow: its job and generation, the rule on every switch, the flows that share its links.

    With --vip: which back end a new flow of a client gets and why, from the tables that the attached balancers have
    installed. A flow that a balancer knows already keeps its back end.

    Example: heddle explain --vip red/10.0.0.100:80 --from 10.0.0.10:40000
    """
    if (flow_id is None) == (vip is None) or (vip is None) != (client is None):
        raise InputError("give FLOW, or both --vip VPC/VIP:PORT and --from CLIENT:PORT")
    if flow_id is not None:
        from heddle.programs.console import fabric as command

        command.explain(server, flow_id, as_json=as_json)
        return
    from heddle.programs.gateway import explain_command

    explain_command.explain_vip(server, vip or "", client or "", balancer or [], as_json=as_json)
