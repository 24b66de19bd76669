"""A real HTTP client of a controller's page."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx


class WebClient:
    """Requests of one browser; `act` sends the token that `/api/session` returns."""

    def __init__(self, client: httpx.AsyncClient):
        self.client = client

    async def get(self, path, **parameters):
        return await self.client.get(path, params=parameters)

    async def json(self, path, **parameters):
        reply = await self.get(path, **parameters)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def act(self, name, **body):
        token = (await self.json("/api/session"))["csrf"]
        return await self.client.post(f"/api/actions/{name}", json=body, headers={"X-CSRF-Token": token})


@asynccontextmanager
async def web(address: str, **settings):
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=20, trust_env=False, **settings) as client:
        yield WebClient(client)


@asynccontextmanager
async def streamed(client: WebClient, **headers):
    """Yield an iterator over (event, id, data) of the stream."""
    async with client.client.stream("GET", "/api/stream", headers=headers) as reply:
        assert reply.status_code == 200
        yield events(reply)


async def events(reply):
    """Read server-sent events (WHATWG HTML, 9.2.6)."""
    fields: dict[str, str] = {}
    async for line in reply.aiter_lines():
        if not line:
            if "data" in fields:
                yield fields.get("event", "message"), fields.get("id", ""), json.loads(fields["data"])
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")


async def next_state(stream, holds=lambda state: True, timeout_s=20):
    async def found():
        async for event, _, data in stream:
            if event == "state" and holds(data):
                return data
        raise AssertionError("the stream ended")

    return await asyncio.wait_for(found(), timeout_s)
