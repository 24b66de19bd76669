"""Tasks beside the controller's loop."""

import asyncio

import pytest

from heddle.controller.runtime.background import Background


@pytest.fixture
def ended():
    return []


async def endless(ended):
    try:
        await asyncio.Event().wait()
    finally:
        ended.append(True)


async def failing():
    raise RuntimeError("a bug")


async def test_closing_waits_until_every_task_has_ended(ended, caplog):
    background = Background()
    background.start(endless(ended), endless(ended))
    await asyncio.sleep(0)
    await background.close()
    assert ended == [True, True]
    assert caplog.records == []


async def test_a_fault_of_one_task_is_logged_and_the_other_goes_on(ended, caplog):
    background = Background()
    background.start(failing(), endless(ended))
    await asyncio.sleep(0.01)
    assert [(record.levelname, str(record.exc_info[1])) for record in caplog.records] == [("ERROR", "a bug")]
    assert ended == []
    await background.close()
    assert ended == [True]


async def test_what_never_started_closes():
    await Background().close()
