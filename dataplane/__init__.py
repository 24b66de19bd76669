"""User-space packet processing: bursts from kernel rings through compiled elements."""
