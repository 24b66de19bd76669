"""Run a program: to its end, for what it prints, with bounded time and output; or for as long as it reports changes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

TIMEOUT_S = 5.0
MAX_OUTPUT_BYTES = 16 << 20
PIECE_BYTES = 1 << 16
END_S = 0.5


class ProgramError(Exception):
    """A program did not run, did not end in time, failed, or printed too much; the text is one line."""


async def output(program: Sequence[str]) -> str:
    """Return what a program prints; raises ProgramError."""
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*program, stdin=null, stdout=pipe, stderr=null)
    except OSError as fault:
        raise ProgramError(f"{program[0]}: {fault.strerror}") from None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            text = await _bounded(process.stdout)
            status = await process.wait()
    except TimeoutError:
        raise ProgramError(f"{program[0]}: no list within {TIMEOUT_S:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            with suppress(TimeoutError):  # a paused pipe would never end: what is left in it is read
                async with asyncio.timeout(TIMEOUT_S):
                    await process.communicate()
    if status:
        raise ProgramError(f"{program[0]}: exit status {status}")
    return text


async def _bounded(stream: asyncio.StreamReader) -> str:
    """Read to the end; raises ProgramError for more than MAX_OUTPUT_BYTES."""
    try:
        await stream.readexactly(MAX_OUTPUT_BYTES + 1)
    except asyncio.IncompleteReadError as whole:
        return whole.partial.decode(errors="replace")
    raise ProgramError(f"it prints more than {MAX_OUTPUT_BYTES:,} bytes")


async def follow(program: Sequence[str], printed: Callable[[], None]) -> None:
    """Call `printed` whenever a program prints something, which is not kept; return once it ends, or does not start."""
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*program, stdin=null, stdout=pipe, stderr=null)
    except OSError:
        return
    assert process.stdout is not None
    try:
        while await process.stdout.read(PIECE_BYTES):
            printed()
        await process.wait()
    finally:
        if process.returncode is None:
            with suppress(OSError):  # it has ended, or is setuid: then it ends when it prints
                process.kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await process.communicate()
