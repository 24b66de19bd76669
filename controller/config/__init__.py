"""Read fabric and jobs files into the model. Errors name the path of the key; docs/files.md describes every key."""

from heddle.controller.config.load import failed_of, load_fabric, load_jobs, parse_fabric, parse_jobs

__all__ = ["failed_of", "load_fabric", "load_jobs", "parse_fabric", "parse_jobs"]
