"""Call a running controller: jobs in, plans out, over gRPC.

    from heddle import client

    with client.connect("127.0.0.1:50051") as controller:
        plan = controller.submit(job)

    async with client.connect_async("10.0.0.1:50051,10.0.0.2:50051") as controller:
        plan = await controller.submit(job)

Of several controllers, named with commas between them, the one that leads is called. A call that another controller
has to answer by now is repeated there. TLS is in use where the environment variable HEDDLE_TLS, or the argument
`tls_directory`, names the directory of a certificate. Errors are those of `heddle`, one line each.
"""

from heddle.client.asynchronous import AsyncController, connect_async
from heddle.client.blocking import Controller, connect

__all__ = ["AsyncController", "Controller", "connect", "connect_async"]
