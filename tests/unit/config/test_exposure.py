"""A port that other machines reach needs TLS, or a word that everybody may use it."""

import asyncio
import logging

import pytest

from heddle.controller.config.service import ServiceConfig, load_service
from heddle.controller.model.error import InputError
from heddle.controller.runtime.limits.exposure import warned

BEYOND = ("0.0.0.0:0", "192.0.2.1:6653", "[::]:6653", "controller.example:6653")
TLS = {"certificate": "c.pem", "key": "k.pem", "ca": "a.pem"}


@pytest.mark.parametrize("key", ["openflow", "grpc"])
@pytest.mark.parametrize("address", BEYOND)
def test_a_listener_beyond_loopback_without_tls_is_refused_with_the_remedy(key, address):
    with pytest.raises(InputError, match="--insecure") as refused:
        load_service(None, **{key: address})
    assert f"{key}: {address}" in str(refused.value)


@pytest.mark.parametrize("key", ["openflow", "grpc"])
@pytest.mark.parametrize("address", BEYOND)
def test_it_is_accepted_as_insecure_or_with_tls(tmp_path, key, address):
    assert load_service(None, **{key: address}, insecure=True).exposed == {key: address}
    path = tmp_path / "config.yaml"
    path.write_text(f"{key}: '{address}'\ninsecure: true\n")
    assert load_service(path).exposed == {key: address}
    assert ServiceConfig.model_validate({key: address, "tls": TLS}).exposed == {}


@pytest.mark.parametrize("grpc", ["127.0.0.1:0", "[::1]:0", "localhost:0", "unix:/run/heddle.sock"])
def test_loopback_and_socket_files_need_nothing(grpc):
    assert load_service(None, grpc=grpc).exposed == {}


async def test_an_exposed_listener_is_logged_at_the_start_and_again_and_again(caplog):
    caplog.set_level(logging.WARNING)
    with warned({"grpc": "0.0.0.0:50051"}, every_s=0.01):
        async with asyncio.timeout(60):
            while len(caplog.records) < 3:
                await asyncio.sleep(0.01)
    logged = len(caplog.records)
    assert all("0.0.0.0:50051" in record.getMessage() for record in caplog.records)
    await asyncio.sleep(0.05)
    assert len(caplog.records) == logged
