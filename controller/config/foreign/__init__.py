"""Convert topology files of other programs to a fabric: a module per format fills a `Draft`, `build` completes it."""

from heddle.controller.config.foreign.draft import Imported, Options
from heddle.controller.config.foreign.hints import Hint
from heddle.controller.config.foreign.read import FORMATS, import_fabric

__all__ = ["FORMATS", "Hint", "Imported", "Options", "import_fabric"]
