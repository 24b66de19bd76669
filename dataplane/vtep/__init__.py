"""The VTEP agent of a host: programs the kernel's VXLAN or Open vSwitch for the controller (`heddle vtep`)."""
