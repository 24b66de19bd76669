"""Close a listening socket of asyncio without losing a connection that it is accepting."""

import asyncio


async def close_listener(server: asyncio.Server) -> None:
    """Stop listening, after `connection_made` of every connection that was accepted: the caller closes them.

    `Server.close` alone leaks a socket: the task that makes the connection fails in `Server._attach` where its server
    has closed meanwhile (CPython 3.11).
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    for _ in range(2):  # a turn of the loop makes the transport, the next one calls `connection_made`
        await asyncio.sleep(0)
    server.close()
