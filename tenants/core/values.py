"""The decorator of small values that every request makes by the dozen."""

from typing import TYPE_CHECKING

__all__ = ["valueclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass as valueclass
else:
    from dataclasses import dataclass

    def valueclass(*, frozen, slots):
        """Make a dataclass whose immutability the type checker alone enforces.

        A class frozen at run time sets each field by `object.__setattr__`, which makes it about three times as slow to
        build. Equality and hash are those of the frozen class.
        """
        return dataclass(slots=slots, unsafe_hash=frozen)
