"""Columns that behave a little better than Django's own."""

from typing import Any

from django.db import models


class WebAddressField(models.URLField):  # type: ignore[type-arg]  # django-stubs' generics do not subscript at run time
    """An address typed without a scheme means https, as it will in Django 6."""

    def formfield(self, **options: Any) -> Any:
        """Return the form's field."""
        return super().formfield(**{"assume_scheme": "https", **options})

    def deconstruct(self) -> Any:
        """The column itself is Django's."""
        name, _path, args, options = super().deconstruct()
        return name, "django.db.models.URLField", args, options
