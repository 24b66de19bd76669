"""TLS to an MQTT broker: which broker is accepted, and the certificate that is shown to it."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from heddle.foundation.regular_file import read_regular

MAX_PEM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTls:
    """PEM files: the authorities that the broker's certificate is of, and our own certificate, if any, with its key."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Read the files, for one connection: a later one shows what replaced them. Raises OSError or ValueError."""
        for path in filter(None, (self.ca, self.certificate, self.key)):
            read_regular(path, MAX_PEM_BYTES)  # OpenSSL would wait for a FIFO's other end
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key, password="")  # asks no one for the key's password
        return context
