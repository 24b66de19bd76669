"""Choose the probes of the ping mesh, and find the links that lose them. Pure."""
