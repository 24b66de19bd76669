"""Other formats to a fabric: one file per format, each of which fills a `Draft`; the rest is common to all."""

from controller.config.foreign.draft import Imported, Options
from controller.config.foreign.read import FORMATS, import_fabric

__all__ = ["FORMATS", "Imported", "Options", "import_fabric"]
