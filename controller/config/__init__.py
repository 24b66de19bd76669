"""Fabric and jobs files to the model; errors carry the path of the key. docs/files.md tells every key."""

from controller.config.load import load_fabric, load_jobs, parse_fabric, parse_jobs

__all__ = ["load_fabric", "load_jobs", "parse_fabric", "parse_jobs"]
