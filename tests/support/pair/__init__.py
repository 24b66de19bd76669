"""A pair of gateways at a site of network namespaces, with numbered traffic through it."""
