"""The vocabulary of queries on tenant-owned rows."""

from typing import TYPE_CHECKING, Any, TypeVar

from django.db import models

if TYPE_CHECKING:
    from tenants.models import Tenant

Row = TypeVar("Row", bound=models.Model)


class TenantQuerySet(models.QuerySet[Row]):
    """Rows that a tenant owns. The model's `TENANT_PATH` says how the row reaches its tenant."""

    def for_tenant(self, tenant: "Tenant | int") -> "TenantQuerySet[Row]":
        """Keep one tenant's rows."""
        return self.filter(**{self._path(): tenant})

    def for_tenants(self, tenants: Any) -> "TenantQuerySet[Row]":
        """Keep the rows of several tenants (a queryset or a list)."""
        return self.filter(**{f"{self._path()}__in": tenants})

    def _path(self) -> str:
        path: str = self.model.TENANT_PATH  # type: ignore[attr-defined]  # declared by each tenant-owned model
        return path
