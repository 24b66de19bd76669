"""Configuration of gateways and hosts as frozen values; the only dataplane package that the controller imports."""
