"""Forms of the admin: what a row refers to belongs to the row's own tenant, whoever writes it."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import Model
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from tenants.core.decimals import trimmed
from tenants.scoping import tenant_id_of, tenant_path


def owner_field(model: type[Model]) -> str | None:
    """Return the field through which a row reaches its tenant; None for a tenant itself and for global rows."""
    path = tenant_path(model)
    return None if path is None or path == "pk" else path.partition("__")[0]


class ScopedForm(forms.ModelForm):  # type: ignore[type-arg]  # django-stubs' generics do not subscript at run time
    """Refuses references into another tenant. `constraint_words` words the constraints that a person can run into."""

    constraint_words: ClassVar[Mapping[str, str | Promise]] = {}

    def get_initial_for_field(self, field: forms.Field, field_name: str) -> Any:
        """Show numbers as people write them: 1.2, not 1.200000000."""
        value = super().get_initial_for_field(field, field_name)
        return Decimal(trimmed(value)) if isinstance(value, Decimal) else value

    def clean(self) -> dict[str, Any] | None:
        """Compare the tenant of everything chosen with that of the row."""
        super().clean()
        tenant = self.owning_tenant()
        if tenant is not None:
            for name in strangers(self, tenant):
                self.add_error(name, ValidationError(_("This belongs to another team."), code="stranger"))
        return self.cleaned_data

    def owning_tenant(self) -> int | None:
        """Return the id of the tenant that the row will belong to."""
        owner = owner_field(self._meta.model)
        if owner is not None and owner in self.fields:
            return tenant_id_of(self.cleaned_data.get(owner))
        return tenant_id_of(self.instance)

    def _get_validation_exclusions(self) -> set[str]:
        # The owner stands fixed on the page of an existing row, but takes part in its constraints.
        excluded: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]  # not in the stubs
        owner = owner_field(self._meta.model)
        return excluded - {owner} if owner is not None and self.instance.pk is not None else excluded

    def _update_errors(self, errors: ValidationError) -> None:
        found = getattr(errors, "error_dict", {}).get(NON_FIELD_ERRORS, [])
        for error in found:
            words = [text for name, text in self.constraint_words.items() if name in str(error.message)]
            if words:
                error.message = words[0]
        super()._update_errors(errors)  # type: ignore[misc]  # not in the stubs


class ScopedFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]  # as above
    """Inline rows: compares with the tenant of the row that they stand in."""

    def clean(self) -> None:
        super().clean()
        tenant = tenant_id_of(self.instance)
        if tenant is None:
            return
        for form in self.forms:
            for name in strangers(form, tenant):
                form.add_error(name, ValidationError(_("This belongs to another team."), code="stranger"))


def strangers(form: forms.BaseForm, tenant: int) -> list[str]:
    """Return the names of the fields whose chosen row belongs to another tenant."""
    return [name for name, row in _chosen(form) if tenant_id_of(row) not in {None, tenant}]


def _chosen(form: forms.BaseForm) -> Iterable[tuple[str, Model]]:
    data: Mapping[str, Any] = getattr(form, "cleaned_data", {})
    for name, field in form.fields.items():
        row = data.get(name)
        if isinstance(field, forms.ModelChoiceField) and isinstance(row, Model) and tenant_path(type(row)) is not None:
            yield name, row
