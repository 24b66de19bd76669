"""The probe agent of a host: it sends the probes that a controller orders, and reports the replies."""
