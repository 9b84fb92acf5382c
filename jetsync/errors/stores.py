"""The errors of key-value buckets and object stores."""

from __future__ import annotations

from jetsync.errors.jetstream import JetStreamError, NotStoredError

__all__ = [
    "BucketExistsError",
    "BucketNotFoundError",
    "KeyDeletedError",
    "KeyExistsError",
    "KeyNotFoundError",
    "KeyValueError",
    "KeyWrongRevisionError",
    "ObjectExistsError",
    "ObjectIntegrityError",
    "ObjectLinkError",
    "ObjectMetaError",
    "ObjectNotFoundError",
    "ObjectReplacedError",
    "ObjectStoreError",
    "ObjectStoreExistsError",
    "ObjectStoreNotFoundError",
]


class KeyValueError(JetStreamError):
    """Base of the errors of the key-value store; ``bucket`` says of which bucket."""

    def __init__(self, message: str = "", *, bucket: str = "") -> None:
        super().__init__(message)
        self.bucket = bucket


class BucketNotFoundError(KeyValueError):
    """There is no bucket of this name. Create it, or correct the name (or the domain)."""


class BucketExistsError(KeyValueError):
    """The bucket exists with another configuration. Update it, or take another name."""


class KeyNotFoundError(KeyValueError, KeyError):
    """The key has no value, or not in this revision. A KeyError too, as for any ``kv[key]``."""

    def __init__(self, message: str = "", *, bucket: str = "", key: str = "") -> None:
        super().__init__(message, bucket=bucket)
        self.key = key

    def __str__(self) -> str:
        return Exception.__str__(self)  # a KeyError shows its text in quotes


class KeyDeletedError(KeyNotFoundError):
    """The key had a value; it was deleted, purged or aged out. ``revision`` is the marker's.

    ``create`` gives it a value again.
    """

    def __init__(
        self, message: str = "", *, bucket: str = "", key: str = "", revision: int = 0
    ) -> None:
        super().__init__(message, bucket=bucket, key=key)
        self.revision = revision


class KeyExistsError(KeyValueError, NotStoredError):
    """``create`` found a value, the one of ``revision``. Nothing was stored; ``update`` that."""

    def __init__(
        self, message: str = "", *, bucket: str = "", key: str = "", revision: int = 0
    ) -> None:
        super().__init__(message, bucket=bucket)
        self.key = key
        self.revision = revision


class KeyWrongRevisionError(KeyValueError, NotStoredError):
    """Another client wrote the key since ``expected``. Nothing was stored; read it and decide anew.

    ``actual`` is the key's last revision, None if the server does not say.
    """

    def __init__(
        self,
        message: str = "",
        *,
        bucket: str = "",
        key: str = "",
        expected: int = 0,
        actual: int | None = None,
    ) -> None:
        super().__init__(message, bucket=bucket)
        self.key = key
        self.expected = expected
        self.actual = actual


class ObjectStoreError(JetStreamError):
    """Base of the errors of the object store; ``bucket`` and ``name`` say of which object."""

    def __init__(self, message: str = "", *, bucket: str = "", name: str = "") -> None:
        super().__init__(message)
        self.bucket = bucket
        self.name = name


class ObjectStoreNotFoundError(ObjectStoreError):
    """There is no bucket of this name. Create it, or correct the name (or the domain)."""


class ObjectStoreExistsError(ObjectStoreError):
    """The bucket exists with another configuration. Update it, or take another name."""


class ObjectNotFoundError(ObjectStoreError):
    """There is no object of this name, or it was deleted."""


class ObjectExistsError(ObjectStoreError):
    """Another object has this name already. Take another name, or delete that one first."""


class ObjectLinkError(ObjectStoreError):
    """A link that cannot be: to a link, to what is deleted, in a circle, or to a whole bucket where
    an object is needed."""


class ObjectMetaError(ObjectStoreError):
    """The stored description of an object cannot be read. Another program wrote it; put the object
    again."""


class ObjectIntegrityError(ObjectStoreError):
    """An object's bytes are missing, or are not those that were put: do not use what was read."""


class ObjectReplacedError(ObjectIntegrityError):
    """The object was replaced, renamed or deleted while it was read. Nothing is wrong with the
    bucket: get it again."""
