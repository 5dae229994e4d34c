"""Fields of every form of the console, the sign-in library's too: of a form with errors the first wrong field gets the focus."""

from __future__ import annotations

from typing import Any

from django.forms import BoundField
from django.forms.renderers import DjangoTemplates


class ErrorField(BoundField):
    """What is wrong with the form as a whole stands above its fields, and comes first (`parts/form_errors.html`)."""

    def build_widget_attrs(self, attrs: Any, widget: Any = None) -> Any:
        attrs = super().build_widget_attrs(attrs, widget)
        form = self.form
        if form.is_bound and form.errors and not form.non_field_errors() and self.name == _first_wrong(form):
            attrs["autofocus"] = True
        return attrs


def _first_wrong(form: Any) -> str:
    return next((name for name, field in form.fields.items() if name in form.errors and not field.widget.is_hidden), "")


class FormRenderer(DjangoTemplates):
    bound_field_class = ErrorField
