"""Files that simulators of others read and write: topologies and flows of ns-3, execution traces of Chakra."""
