"""The lab's switches and links: a private Open vSwitch, Mininet nodes, link shaping, path traces."""
