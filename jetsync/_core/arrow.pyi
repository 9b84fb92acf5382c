"""Messages as Arrow columns through the Arrow C data interface; pyarrow is not needed."""

from typing import Final

COLUMNS: Final[tuple[str, ...]]
