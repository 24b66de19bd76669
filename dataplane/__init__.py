"""User-space packet processing: bursts from kernel rings through compiled elements."""

if __name__ != "heddle.dataplane":
    raise ImportError("this package is heddle.dataplane: import it by that name")
