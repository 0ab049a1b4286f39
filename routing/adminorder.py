"""Inline tables whose rows have an order: a number to type, and a static script that drags and numbers."""

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from routing.ordering import LAST, lock_owner, settle
from tenants.adminbase import ScopedTabularInline, TenantScopedAdmin
from tenants.adminforms import ScopedForm, ScopedFormSet

SEEN = "SEEN"  # the rows as the page was opened


class PlaceField(forms.IntegerField):
    """A place, counted from 1 by people and from 0 by us; empty = at the end."""

    def __init__(self, **options: Any) -> None:
        options = {"label": _("order"), "required": False, "min_value": 1, "max_value": LAST, **options}
        super().__init__(**options)
        self.widget.attrs.update({"class": "place", "inputmode": "numeric"})

    def prepare_value(self, value: Any) -> Any:
        """Show a stored place; what was typed stays as it is."""
        return value + 1 if isinstance(value, int) else value

    def clean(self, value: Any) -> int:
        """Return the place from 0. Raises ValidationError."""
        number = super().clean(value)
        return LAST if number is None else number - 1

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare what people see."""
        return super().has_changed(self.prepare_value(initial), data)


class OrderedForm(ScopedForm):
    """A row with a place. A number alone makes no new row."""

    position = PlaceField()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is None and "position" not in (options.get("initial") or {}):
            self.initial["position"] = None

    @cached_property
    def changed_data(self) -> list[str]:
        """Leave the number of a row that does not exist yet out."""
        names: list[str] = super().changed_data
        return [name for name in names if name != "position" or self.instance.pk is not None]


class OrderedFormSet(ScopedFormSet):
    """Refuses to save over what somebody else saved meanwhile; leaves places without gaps."""

    model: type[Model]

    @cached_property
    def management_form(self) -> Any:
        """Add the rows as they are now, for a comparison when the page comes back."""
        form: Any = super().management_form
        form.fields[SEEN] = forms.CharField(required=False, widget=forms.HiddenInput, initial=self.as_stored())
        return form

    def as_stored(self) -> str:
        """Return a mark of the rows in the database, of their order and of what the table lets people edit."""
        if self.instance.pk is None:
            return ""
        names = [name for name in self.form.base_fields if name in self._columns()]
        rows = self.model._default_manager.filter(**{self.fk.name: self.instance}).order_by("position", "pk")
        text = repr(list(rows.values_list("pk", *[name for name in names if name != "position"])))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def clean(self) -> None:
        super().clean()
        seen = self.data.get(f"{self.prefix}-{SEEN}", "")
        if not seen or self.instance.pk is None or not any(form.has_changed() for form in self.forms):
            return
        lock_owner(self.instance)
        if seen != self.as_stored():
            raise ValidationError(
                _(
                    "Somebody else changed these rows after you opened the page. Nothing was saved: open the page"
                    " again, look at their change, and make yours."
                ),
                code="overtaken",
            )

    def save(self, commit: bool = True) -> Any:
        """Save the rows, then number them."""
        saved = super().save(commit)
        if commit:
            settle(self.model, self.instance, self.fk.name, self._wanted())
        return saved

    def add_fields(self, form: Any, index: int | None) -> None:
        """Show a row's rank: rows that something else removed leave gaps in what is stored."""
        super().add_fields(form, index)
        if form.instance.pk in self._ranks:
            form.initial["position"] = self._ranks[form.instance.pk]

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {row.pk: rank for rank, row in enumerate(self.get_queryset())}

    def _wanted(self) -> dict[int, tuple[int, int]]:
        """Return what the numbers say, by id; see `settle`."""
        wanted = {}
        for form in self.forms:
            place = getattr(form, "cleaned_data", {}).get("position")
            if form.instance.pk is None or place is None:
                continue
            rank = self._ranks.get(form.instance.pk, LAST)
            wanted[form.instance.pk] = (place, (place > rank) - (place < rank))
        return wanted

    def _columns(self) -> set[str]:
        return {field.name for field in self.model._meta.fields}


class OrderedRows(ScopedTabularInline):
    """A table of rows in an order. The page's template brings the script and its words."""

    form = OrderedForm
    formset = OrderedFormSet
    ordering = ("position", "pk")
    readonly_fields: ClassVar[tuple[str, ...]] = ("place",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """A reader gets the number as people count it."""
        fields = super().get_fields(request, obj)
        if self.has_change_permission(request, obj):
            return fields
        return ["place" if name == "position" else name for name in fields]

    @admin.display(description=_("order"))
    def place(self, row: Any) -> int:
        """Return the place from 1."""
        return int(row.position) + 1


class OrderedAdmin(TenantScopedAdmin):
    """The page of a single row that has a place among its owner's rows. `owned_through`: the field naming the owner."""

    owned_through: ClassVar[str]

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        row = form.instance
        self._settle(getattr(row, self.owned_through), {} if change else {row.pk: (row.position, -1)})

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        owner = getattr(obj, self.owned_through)
        super().delete_model(request, obj)
        self._settle(owner)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        owners = {getattr(row, self.owned_through) for row in queryset.select_related(self.owned_through)}
        super().delete_queryset(request, queryset)
        for owner in sorted(owners, key=lambda owner: owner.pk):
            self._settle(owner)

    def _settle(self, owner: Model, wanted: Mapping[int, tuple[int, int]] | None = None) -> None:
        settle(self.model, owner, self.owned_through, wanted)
