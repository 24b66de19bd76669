"""Who may read and act over HTTP: Host, headers, login, tokens."""

import asyncio
import json
import time
from typing import Any

import pytest
from argon2 import PasswordHasher

from heddle.controller.config.service import load_service
from heddle.controller.dashboard import stream
from heddle.controller.dashboard.access import login
from heddle.controller.dashboard.access.guard import host_name, origin_name
from heddle.controller.model.error import InputError
from tests.unit.api.conftest import running
from tests.unit.dashboard.web_client import next_state, streamed, web

PASSWORD = "correct horse"
LOGIN: dict[str, Any] = {
    "user": "ann",
    "password_hash": PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD),
}


async def test_a_host_that_is_not_this_server_is_refused():
    async with running() as controller, web(controller.addresses["http"]) as client:
        wrong = ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "localhost:80/?127.0.0.1", "::1")
        for host in wrong:
            reply = await client.client.get("/api/state", headers={"Host": host})
            assert (reply.status_code, "Host header" in reply.json()["error"]) == (421, True)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("LocalHost", "localhost"), ("fabric.example.:8080", "fabric.example"), ("10.0.0.9:1", "10.0.0.9"),
        ("[FD00::9]", "fd00::9"), ("[::1]:65535", "::1"), ("localhost:65536", None), ("localhost:", None),
        ("localhost:8080evil", None), ("localhost:-1", None), ("localhost:80:80", None), ("localhost ", None),
        ("a@localhost", None), ("localhost,localhost", None), ("localhost/", None), ("localhost\n", None),
        ("[::1", None), ("[localhost]", None), ("[::1]x", None), ("localhost:\u0661", None),
    ],
)  # fmt: skip
def test_a_host_header_and_an_origin_are_read_whole(header, name):
    assert host_name(header) == name
    assert origin_name(f"http://{header}") == origin_name(f"HTTPS://{header}") == name
    others = (header, *(text.format(header) for text in ("", "null", "//{}", "ftp://{}", "http://{}/", "http://{}?x")))
    assert {origin_name(other) for other in others} == {None}


async def test_every_reply_forbids_what_is_not_of_this_server():
    async with running() as controller, web(controller.addresses["http"]) as client:
        for path in ("/api/health", "/api/nothing", "/nothing", "/metrics", "/healthz"):
            forbids_others((await client.get(path)).headers)


def forbids_others(headers):
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-CSRF-Token": "0" * 64},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:x"},
        {"Origin": "null"},
    ],
)
async def test_an_action_without_the_token_of_the_session_is_refused(headers):
    async with running() as controller, web(controller.addresses["http"]) as client:
        if "Origin" in headers:
            headers = {**headers, "X-CSRF-Token": (await client.json("/api/session"))["csrf"]}
        body = {"target": "leaf1:1>spine1:1"}
        reply = await client.client.post("/api/actions/drain", json=body, headers=headers)
        assert reply.status_code == 403
        assert not controller.application.loop.state.drained


async def test_without_the_login_nothing_is_read_and_with_it_everything():
    async with running(http_access=LOGIN) as controller, web(controller.addresses["http"]) as client:
        assert (await client.json("/api/session"))["may_act"] is False
        assert [(await client.get(path)).status_code for path in ("/api/state", "/metrics", "/api/openapi.json")] == [
            401
        ] * 3
        wrong = await client.client.post("/api/login", json={"user": "ann", "password": "wrong"})
        assert wrong.status_code == 403
        right = await client.client.post("/api/login", json={"user": "ann", "password": PASSWORD})
        cookie = right.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.json("/api/session"))["user"] == "ann"
        assert (await client.get("/api/state")).status_code == 200
        token = right.json()["csrf"]
        assert (await client.client.post("/api/logout", headers={"X-CSRF-Token": token})).status_code == 200
        assert (await client.get("/api/state")).status_code == 401


@pytest.mark.parametrize("ends_by", ["logout", "time"])
async def test_a_stream_ends_with_the_login_that_it_was_opened_by(monkeypatch, ends_by):
    monkeypatch.setattr(stream, "PING_S", 0.05)
    known, log_in = [], login.Logins.log_in

    async def noted(self, *arguments):
        known.append(self)
        return await log_in(self, *arguments)

    monkeypatch.setattr(login.Logins, "log_in", noted)
    async with running(http_access=LOGIN) as controller, web(controller.addresses["http"]) as client:
        session = (await client.client.post("/api/login", json={"user": "ann", "password": PASSWORD})).json()
        async with streamed(client) as events:
            await next_state(events)
            if ends_by == "logout":
                await client.client.post("/api/logout", headers={"X-CSRF-Token": session["csrf"]})
            else:
                known[0]._now_s = lambda: time.monotonic() + login.SESSION_S + 1
            async with asyncio.timeout(20):
                async for _ in events:
                    pass
        assert (await client.get("/api/state")).status_code == 401


async def test_a_login_takes_no_session_that_its_client_brings():
    async with running(http_access=LOGIN) as controller, web(controller.addresses["http"]) as client:
        brought = {"Cookie": f"{login.COOKIE}=chosen"}
        reply = await client.client.post("/api/login", json={"user": "ann", "password": PASSWORD}, headers=brought)
        assert (reply.status_code, "chosen" in reply.headers["set-cookie"]) == (200, False)
        client.client.cookies.clear()
        assert (await client.client.get("/api/state", headers=brought)).status_code == 401


async def test_prometheus_reads_metrics_by_the_password():
    async with running(http_access=LOGIN) as controller, web(controller.addresses["http"]) as client:
        assert (await client.client.get("/metrics", auth=("ann", PASSWORD))).status_code == 200
        assert (await client.client.get("/api/state", auth=("ann", PASSWORD))).status_code == 401


async def test_wrong_passwords_are_limited_and_the_right_one_waits_too():
    async with running(http_access=LOGIN) as controller, web(controller.addresses["http"]) as client:
        for _ in range(login.MAX_FAILURES):
            assert (await client.client.post("/api/login", json={"user": "ann", "password": "x"})).status_code == 403
        late = await client.client.post("/api/login", json={"user": "ann", "password": PASSWORD})
    assert late.status_code == 429


async def test_only_a_trusted_proxy_names_the_user():
    proxy: dict[str, Any] = {"proxy_header": "X-User", "proxies": ["127.0.0.1"]}
    async with running(http_access=proxy) as controller, web(controller.addresses["http"]) as client:
        assert (await client.client.get("/api/state")).status_code == 401
        named = await client.client.get("/api/session", headers={"X-User": "bob"})
        assert (named.json()["user"], named.json()["may_act"]) == ("bob", True)
    elsewhere: dict[str, Any] = {"proxy_header": "X-User", "proxies": ["192.0.2.1"]}
    async with running(http_access=elsewhere) as controller, web(controller.addresses["http"]) as client:
        assert (await client.client.get("/api/state", headers={"X-User": "bob"})).status_code == 401


@pytest.mark.parametrize("http", ["0.0.0.0:8080", "192.0.2.1:80", "[::]:8080"])
@pytest.mark.parametrize(
    "access", ["{}", f"{{user: ann, password_hash: '{LOGIN['password_hash']}'}}", "{certificate: a, key: b}"]
)
def test_beyond_loopback_without_tls_and_a_login_is_one_line(tmp_path, http, access):
    path = tmp_path / "config.yaml"
    path.write_text(f"http: '{http}'\nhttp_access: {access}\n")
    with pytest.raises(InputError) as refused:
        load_service(path)
    assert str(refused.value).count("\n") == 0
    assert "reachable from other machines" in str(refused.value)


@pytest.mark.parametrize(
    "access",
    [
        "{user: ann}",
        "{password_hash: $argon2id$x}",
        "{certificate: a}",
        "{proxy_header: X}",
        "{user: a, password_hash: x}",
    ],
)
def test_half_of_an_access_rule_is_refused(tmp_path, access):
    path = tmp_path / "config.yaml"
    path.write_text(f"http_access: {access}\n")
    with pytest.raises(InputError):
        load_service(path)


async def test_a_viewer_reads_and_does_not_act_and_actions_are_audited(tmp_path):
    (tmp_path / "policy.yaml").write_text("users: {ann: operator}")
    proxy: dict[str, Any] = {"proxy_header": "X-User", "proxies": ["127.0.0.1"]}
    config = {"policy": str(tmp_path / "policy.yaml"), "audit": str(tmp_path / "audit.jsonl"), "http_access": proxy}
    async with running(**config) as controller:
        for user, may_act, status in (("ann", True, 404), ("eve", False, 403)):
            async with web(controller.addresses["http"], headers={"X-User": user}) as client:
                assert (await client.json("/api/session"))["may_act"] is may_act
                assert (await client.act("release", job="a")).status_code == status
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["who"], line["what"], line["subject"], line["outcome"]) for line in lines] == [
        ("user:ann", "http/release", "a", "NotFound"),
        ("user:eve", "http/release", "", "Denied"),
    ]
