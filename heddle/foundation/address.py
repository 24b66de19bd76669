"""Convert 48-bit MAC addresses from integers to text."""


def mac_text(mac: int) -> str:
    """Return a MAC address as six hexadecimal octets joined by colons."""
    return ":".join(f"{mac >> shift & 0xFF:02x}" for shift in range(40, -8, -8))
