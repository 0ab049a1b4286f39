"""The integers that rotations remember, by scope and name. What they mean is routing's business."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Spin:
    """A change of one scope's integers: `drop` forgets, `add` adds (a missing one is 0), `put` sets, in this order."""

    scope: str
    add: Mapping[str, int] = field(default_factory=dict)
    put: Mapping[str, int] = field(default_factory=dict)
    drop: tuple[str, ...] = ()


class Wheels:
    """Scopes to their integers, in memory. `turned`: those that did since `turned` was last emptied."""

    def __init__(self) -> None:
        self._scopes: dict[str, dict[str, int]] = {}
        self.turned: set[str] = set()

    def of(self, scope: str) -> Mapping[str, int]:
        return self._scopes.get(scope, {})

    def spin(self, spin: Spin) -> None:
        values = self._scopes.setdefault(spin.scope, {})
        self.turned.add(spin.scope)
        for name in spin.drop:
            values.pop(name, None)
        for name, step in spin.add.items():
            values[name] = values.get(name, 0) + step
        values.update(spin.put)

    def load(self, values: Iterable[tuple[str, str, int]]) -> None:
        """Replace everything by (scope, name, value)."""
        self._scopes = {}
        for scope, name, value in values:
            self._scopes.setdefault(scope, {})[name] = value
        self.turned = set(self._scopes)
