"""Who may see what: a person's roles in tenants, and querysets cut down to them. Deny by default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model, Q, QuerySet

from tenants.models import Membership, Role

Row = TypeVar("Row", bound=Model)

EVERYONE = frozenset(Role)
ADMINS = frozenset({Role.ADMIN})
OPERATIONS = frozenset({Role.ADMIN, Role.VIEWER})  # finance sees billing pages only
NOBODY: frozenset[Role] = frozenset()  # the operator alone

_CACHE = "_pointsman_reach"


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a person sees. The operator sees every tenant; anyone else has one role per tenant id."""

    operator: bool = False
    roles: Mapping[int, Role] = field(default_factory=dict)

    def tenants(self, roles: frozenset[Role]) -> frozenset[int]:
        """Return the ids of the tenants in which the person has one of these roles."""
        return frozenset(tenant for tenant, role in self.roles.items() if role in roles)

    def allows(self, tenant: int | None, roles: frozenset[Role]) -> bool:
        """Tell whether the person has one of these roles in a tenant. A row without a tenant is the operator's."""
        return self.operator or (tenant is not None and self.roles.get(tenant) in roles)


NOTHING = Reach()


def reach_of(user: Any) -> Reach:
    """Return how far a person sees; read once per user object, that is once per request."""
    if not (user.is_active and getattr(user, "is_staff", False)):
        return NOTHING
    if user.is_superuser:
        return Reach(operator=True)
    known: Reach | None = getattr(user, _CACHE, None)
    if known is None:
        rows = Membership.objects.filter(user_id=user.pk).values_list("tenant_id", "role")
        known = Reach(roles={tenant: Role(role) for tenant, role in rows})
        setattr(user, _CACHE, known)
    return known


def scoped(rows: "QuerySet[Row]", reach: Reach, roles: frozenset[Role], *, shared: bool = False) -> "QuerySet[Row]":
    """Keep the rows that the person may see with one of these roles.

    `shared`: rows without a tenant (such as global prices) stay too, for anyone who has such a role anywhere. A model
    without TENANT_PATH has no rows for anyone but the operator.
    """
    if reach.operator:
        return rows
    path = tenant_path(rows.model)
    tenants = reach.tenants(roles)
    if path is None or not tenants:
        return rows.none()
    own = Q(**{f"{path}__in": sorted(tenants)})
    return rows.filter(own | Q(**{f"{path}__isnull": True}) if shared else own)


def tenant_path(model: type[Model]) -> str | None:
    """Return how a row reaches its tenant (`upstream__tenant`; `pk` for a tenant itself), None = it has none."""
    path: str | None = getattr(model, "TENANT_PATH", None)
    return path


def tenant_id_of(row: Model | None) -> int | None:
    """Return the id of the tenant that owns a row; None when it has none or is not complete yet."""
    path = tenant_path(type(row)) if row is not None else None
    if row is None or path is None:
        return None
    if path == "pk":
        return row.pk  # type: ignore[no-any-return]  # every primary key here is a whole number
    *steps, last = path.split("__")
    at: Any = row
    try:
        for step in steps:
            at = getattr(at, step)
    except ObjectDoesNotExist:
        return None
    found: int | None = getattr(at, f"{last}_id", None) if at is not None else None
    return found
