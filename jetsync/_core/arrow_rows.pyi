"""ArrowRows: reading text, binary and header columns of any Arrow record batch, row by row."""

from typing import Protocol

class _Exportable(Protocol):
    """Anything with the Arrow PyCapsule interface: a pyarrow, polars or nanoarrow record batch."""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

class ArrowRows:
    """A borrowed record batch; keeps it alive. Reading only, so threads may share it."""

    def __new__(cls, batch: _Exportable) -> ArrowRows: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def length(self) -> int: ...
    def text(self, name: str, row: int) -> str: ...
    def check_headers(self, name: str) -> int: ...
