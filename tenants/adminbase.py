"""The base of every admin page: rows, choosers, filters, actions and writes are cut down to the person's tenants.

Django's own model permissions play no part: what a person may do follows from the role in the row's tenant. The
platform operator (superuser) may do all that the page allows at all.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Field, ForeignKey, JSONField, Model, QuerySet
from django.forms import BaseFormSet, ModelForm
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import capfirst

from tenants.adminforms import ScopedForm, ScopedFormSet, owner_field
from tenants.adminreading import plain_decimals
from tenants.encryption import EncryptedTextField
from tenants.models import Tenant
from tenants.scoping import ADMINS, EVERYONE, NOBODY, Reach, reach_of, scoped, tenant_id_of, tenant_path
from tenants.services import audit, touch_config

COUNT_CAP = 5000
_NOTED_MAX = 200
_ID_DIGITS = 18
_LOOKUP_ENDINGS = ("", "__exact", "__id__exact", "__isnull", "__gte", "__lt")


_PLUGGED: dict[type[Model], list[type["ScopedTabularInline"]]] = {}


def plug_inline(model: type[Model], inline: type["ScopedTabularInline"]) -> None:
    """Show an upper app's rows on a lower app's page: budgets and the route on the page of a line."""
    _PLUGGED.setdefault(model, []).append(inline)


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # django-stubs' generics do not subscript at run time
    """Counts up to COUNT_CAP rows: a full count of a big table would cost seconds."""

    @cached_property
    def count(self) -> int:
        rows = self.object_list
        if isinstance(rows, QuerySet):
            return rows.order_by()[:COUNT_CAP].count()
        return len(rows)

    @property
    def capped(self) -> bool:
        """Whether there may be more rows than `count`."""
        return self.count >= COUNT_CAP


class ScopedRelatedFilter(admin.RelatedFieldListFilter):
    """A filter by a related row that offers the person's own rows only."""

    OFFERED_MAX = 200

    def field_choices(self, field: Any, request: HttpRequest, _model_admin: Any) -> list[tuple[str, Any]]:
        """Return at most OFFERED_MAX choices."""
        rows = owned_rows(field.remote_field.model, reach_of(request.user), EVERYONE)
        return [(str(row.pk), str(row)) for row in rows[: self.OFFERED_MAX]]


def owned_rows(model: type[Model], reach: Reach, roles: frozenset[Any]) -> QuerySet[Any]:
    """Return the rows of a model that may be chosen, with what their names need."""
    if model is get_user_model():
        people = model._default_manager.all()
        if reach.operator:
            return people
        return people.filter(memberships__tenant__in=reach.tenants(roles), is_superuser=False).distinct()
    path = tenant_path(model)
    rows = scoped(model._default_manager.all(), reach, roles)
    return rows.select_related(path) if path is not None and path != "pk" else rows


class Scoped:
    """What pages and the inline tables in them share."""

    model: type[Model]
    readers: ClassVar[frozenset[Any]] = EVERYONE
    writers: ClassVar[frozenset[Any]] = ADMINS
    read_only: ClassVar[bool] = False
    shared_rows: ClassVar[bool] = False  # rows without a tenant are shown to everyone

    def reach(self, request: HttpRequest) -> Reach:
        """Return how far this person sees."""
        return reach_of(request.user)

    def may_read(self, request: HttpRequest, row: Model | None = None) -> bool:
        """Tell whether the person may see a row (None: some row)."""
        if row is not None and self.shared_rows and tenant_id_of(row) is None:
            return self._may(request, None, self.readers)
        return self._may(request, row, self.readers)

    def may_write(self, request: HttpRequest, row: Model | None = None) -> bool:
        """Tell whether the person may write a row (None: some row)."""
        return not self.read_only and self._may(request, row, self.writers)

    def _may(self, request: HttpRequest, row: Model | None, roles: frozenset[Any]) -> bool:
        reach = self.reach(request)
        if reach.operator:
            return True
        if tenant_path(self.model) is None and not self.shared_rows:
            return False
        return bool(reach.tenants(roles)) if row is None else reach.allows(tenant_id_of(row), roles)

    def scoped_foreign_key(self, db_field: Any, request: HttpRequest, options: dict[str, Any]) -> dict[str, Any]:
        """Offer, and accept, rows of the person's own tenants only."""
        options.setdefault("queryset", owned_rows(db_field.remote_field.model, self.reach(request), self.writers))
        return options


class TenantScopedAdmin(Scoped, admin.ModelAdmin):  # type: ignore[type-arg]  # as above
    """A page of rows that tenants own.

    `operator_fields` are written by the operator alone; `hidden_values` are noted in the audit log by name only.
    """

    form = ScopedForm
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # they count
    list_per_page = 50
    list_max_show_all = 0
    operator_fields: ClassVar[tuple[str, ...]] = ()
    hidden_values: ClassVar[frozenset[str]] = frozenset()
    extra_lookups: ClassVar[frozenset[str]] = frozenset()  # query parameters beside those of the filters

    # --- who may what ---

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.may_read(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_read(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may_write(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_write(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_write(request, obj)

    # --- what is seen ---

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return scoped(rows, self.reach(request), self.readers, shared=self.shared_rows)

    def writable(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the selected rows that the person may write; actions start from here."""
        return scoped(rows, self.reach(request), self.writers)

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[Any]:
        return [*super().get_inlines(request, obj), *_PLUGGED.get(self.model, ())]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = [*super().get_readonly_fields(request, obj)]
        owner = owner_field(self.model)
        if obj is not None and owner is not None:
            fixed.append(owner)
        if not self.reach(request).operator:
            fixed += self.operator_fields
        return tuple(dict.fromkeys(fixed))

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return super().formfield_for_foreignkey(db_field, request, **self.scoped_foreign_key(db_field, request, kwargs))

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return super().formfield_for_manytomany(db_field, request, **self.scoped_foreign_key(db_field, request, kwargs))

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Fill in the tenant where there is only one to choose; an operator's row without one is for all."""
        asked: dict[str, Any] = super().get_changeform_initial_data(request)
        given = {name: value for name, value in asked.items() if _may_name(self.model, name, value)}
        if owner_field(self.model) == "tenant" and "tenant" not in given:
            if self.reach(request).operator and self.opts.get_field("tenant").null:
                return given
            tenants = list(owned_rows(Tenant, self.reach(request), self.writers)[:2])
            if len(tenants) == 1:
                given["tenant"] = tenants[0].pk
        return given

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow what the filters ask and nothing else: a path through relations could probe other people's rows."""
        del value
        names: set[str] = set(self.extra_lookups)
        for item in self.get_list_filter(request) if request is not None else self.list_filter:
            parameter = getattr(item, "parameter_name", None)
            name = parameter or (item[0] if isinstance(item, list | tuple) else item)
            names.update(f"{name}{ending}" for ending in _LOOKUP_ENDINGS)
        return lookup in names

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Name the list by what is in it."""
        title = capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        """Show decimals that are only read without the zeros that their column has behind them."""
        plain_decimals(self.model, context["adminform"])
        return super().render_change_form(request, context, *args, **kwargs)

    # --- writes ---

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        touch_config()

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the inline rows, and note everything that this page wrote."""
        super().save_related(request, form, formsets, change)
        fields = self.noted(form)
        if fields or not change:
            self.note(request, "changed" if change else "added", form.instance, fields)
        for formset in formsets:
            self._note_formset(request, formset)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.note(request, "removed", obj, {})
        super().delete_model(request, obj)
        touch_config()

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.note(request, "removed", row, {})
        super().delete_queryset(request, queryset)
        touch_config()

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Let a row's own read-only history go with it; what must outlive it (money) is protected by the database."""
        listed, counts, needed, protected = super().get_deleted_objects(objs, request)
        pages = self.admin_site._registry.items()
        history = {model._meta.verbose_name for model, page in pages if getattr(page, "read_only", False)}
        return listed, counts, {name for name in needed if name not in history}, protected

    def note(self, request: HttpRequest, action: str, row: Model, fields: Mapping[str, Any]) -> None:
        """Write an audit entry."""
        tenant_id = None if isinstance(row, Tenant) and action == "removed" else tenant_id_of(row)
        tenant = Tenant.objects.filter(pk=tenant_id).first() if tenant_id is not None else None
        user: Any = request.user
        audit(user=user, action=action, target=row, tenant=tenant, fields=fields)

    def noted(self, form: Any) -> dict[str, Any]:
        """Return the changed fields of a form with their harmless new values."""
        return {name: harmless(form, name, self.hidden_values) for name in form.changed_data}

    def _note_formset(self, request: HttpRequest, formset: "BaseFormSet[Any]") -> None:
        new = {row.pk for row in getattr(formset, "new_objects", ())}
        changed = {row.pk for row, _names in getattr(formset, "changed_objects", ())}
        for form in formset.forms:
            row = form.instance
            if row.pk is not None and row.pk in new | changed:
                self.note(request, "added" if row.pk in new else "changed", row, self.noted(form))
        removed: Iterable[Any] = getattr(formset, "deleted_objects", ())
        for row in removed:
            self.note(request, "removed", row, {})


class ReadOnlyAdmin(TenantScopedAdmin):
    """Rows that nobody edits: records, the ledger, events, the audit log."""

    read_only = True
    actions = None


class ScopedTabularInline(Scoped, admin.TabularInline):  # type: ignore[type-arg]  # as above
    """Rows inside the page of the row that owns them."""

    form = ScopedForm
    formset = ScopedFormSet
    extra = 0

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_write(request, _owner(self, obj))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_write(request, _owner(self, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_write(request, _owner(self, obj))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_read(request, _owner(self, obj))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return scoped(super().get_queryset(request), self.reach(request), self.readers)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return super().formfield_for_foreignkey(db_field, request, **self.scoped_foreign_key(db_field, request, kwargs))


class LinkedRows(ScopedTabularInline):
    """A table of rows that are edited on their own pages."""

    read_only = True
    show_change_link = True
    can_delete = False
    max_num = 0


def _may_name(model: type[Model], name: str, value: Any) -> bool:
    """Tell whether a value of a query string may stand for a row, where a field wants one: only a number can."""
    wanted = {field.name for field in model._meta.get_fields() if isinstance(field, ForeignKey)}
    return name not in wanted or (str(value).isascii() and str(value).isdigit() and len(str(value)) <= _ID_DIGITS)


def _owner(_inline: Any, obj: Any) -> Any:
    """Django asks an inline about the row that it stands in, or about nothing yet."""
    return obj if obj is not None and obj.pk is not None else None


def harmless(form: "ModelForm[Any]", name: str, hidden: frozenset[str]) -> Any:
    """Return what the audit log may say about a new value: never a secret, never a whole web address."""
    column = next((found for found in form.instance._meta.get_fields() if found.name == name), None)
    if name in hidden or not isinstance(column, Field) or isinstance(column, EncryptedTextField):
        return "changed"
    value = form.cleaned_data.get(name)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(column, ForeignKey):
        return str(value)[:_NOTED_MAX]
    if isinstance(column, JSONField) and isinstance(value, list | dict):
        return value if len(str(value)) <= _NOTED_MAX else "changed"
    return str(value)[:_NOTED_MAX]


def shown_address(url: str) -> str:
    """Return where an address leads: its path is often the credential."""
    return f"{urlsplit(url).scheme}://{urlsplit(url).hostname}/…" if url else ""


__all__ = [
    "ADMINS",
    "EVERYONE",
    "NOBODY",
    "LinkedRows",
    "ReadOnlyAdmin",
    "ScopedRelatedFilter",
    "ScopedTabularInline",
    "TenantScopedAdmin",
    "plug_inline",
]
