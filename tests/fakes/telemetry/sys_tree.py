"""A directory tree with the files of /sys and /proc that describe NICs."""

from pathlib import Path


class SysTree:
    """Network and RDMA devices; `driver` has the counters of the ethtool ioctl by device."""

    def __init__(self, root: Path, driver: dict[str, dict[str, int]]) -> None:
        self.root = root
        self.driver = driver
        boot = root / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("5f4b0f26-3c3a-4c51-9d0e-0e6f6f0d7c11\n")

    def net(self, device: str, ifindex: int, **statistics: object) -> None:
        """Add or change a network device."""
        link = self.root / "sys/class/net" / device
        (link / "statistics").mkdir(parents=True, exist_ok=True)
        (link / "ifindex").write_text(f"{ifindex}\n")
        for name, value in statistics.items():
            (link / "statistics" / name).write_text(f"{value}\n")

    def rdma(self, name: str, device: str, *, gids: bool = True, **hw_counters: int) -> None:
        """Add an RDMA device with one port that belongs to a network device."""
        port = self.root / "sys/class/infiniband" / name / "ports" / "1"
        (port / "hw_counters").mkdir(parents=True)
        for counter, value in hw_counters.items():
            (port / "hw_counters" / counter).write_text(f"{value}\n")
        if gids:
            (port / "gid_attrs" / "ndevs").mkdir(parents=True)
            (port / "gid_attrs" / "ndevs" / "0").write_text(f"{device}\n")
        (self.root / "sys/class/infiniband" / name / "device" / "net" / device).mkdir(parents=True)
