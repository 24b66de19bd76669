"""Read from a SONiC switch's APPL_DB what its ports hear by LLDP, and which of them have carrier, once."""

from collections.abc import Mapping

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from heddle.telemetry.agent.source import SourceError
from heddle.telemetry.agent.sources.sonic import APPL_DB, TIMEOUT_S

TABLES = ("LLDP_ENTRY_TABLE:*", "PORT_TABLE:*")
MAX_ROWS = 4_096
"""Rows of both tables that are read of one switch; a port has one of each."""


def read_neighbours(url: str) -> dict[str, Mapping[str, str]]:
    """Return the rows of LLDP_ENTRY_TABLE and PORT_TABLE by key; raises SourceError if Redis does not reply.

    Raises ValueError for an invalid URL.
    """
    pool = redis.ConnectionPool.from_url(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        encoding_errors="replace",
    )
    pool.connection_kwargs.setdefault("db", APPL_DB)
    client = redis.Redis(connection_pool=pool)
    try:
        keys: list[str] = []
        for pattern in TABLES:
            for key in client.scan_iter(match=pattern, count=1_000):
                if len(keys) >= MAX_ROWS:
                    raise SourceError(f"APPL_DB has more than {MAX_ROWS:,} rows of {' and '.join(TABLES)}")
                keys.append(key)
        with client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.hgetall(key)
            replies = pipe.execute(raise_on_error=False)
    except (RedisError, OSError, TimeoutError) as fault:
        raise SourceError(f"Redis: {fault or type(fault).__name__}") from None
    finally:
        client.close()
        pool.disconnect()
    return {key: reply for key, reply in zip(keys, replies, strict=True) if isinstance(reply, Mapping)}
