"""My account: the person's own second factor and password."""

from collections.abc import Callable
from typing import Any

import segno
from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters

from config.pages.login import slowed, wait_words
from tenants import factors
from tenants.login_models import SecondFactor
from tenants.services import audit
from tenants.throttling import Gate, enter_code, forgive

MODULE = 5  # pixels


class CodeForm(forms.Form):
    code = forms.CharField(
        label=gettext_lazy("code"),
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "spellcheck": "false"}),
    )


class ConfirmForm(CodeForm):
    """Switching on takes the password too: an unlocked screen is not enough."""

    password = forms.CharField(
        label=gettext_lazy("your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


@sensitive_post_parameters("password", "code")
def security_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Show how the account is secured; on POST begin, confirm or end the second factor, or renew its codes."""
    user: Any = request.user
    deeds: dict[str, Callable[[HttpRequest, User, Gate], dict[str, Any] | HttpResponse]] = {
        "begin": _begin,
        "confirm": _confirm,
        "off": _off,
        "codes": _codes,
    }
    shown: dict[str, Any] = {}
    gate = Gate()
    deed = deeds.get(request.POST.get("do", "")) if request.method == "POST" else None
    if deed is not None:
        gate = Gate() if deed is _begin else enter_code(user_id=user.pk, now=now())
        found = {"form": _slow_form(request, gate)} if gate.wait else deed(request, user, gate)
        if isinstance(found, HttpResponse):
            return found
        shown = found
    factor = factors.factor_of(user)
    begun = SecondFactor.objects.filter(user_id=user.pk, confirmed=None).first()
    context = {
        **site.each_context(request),
        "title": _("My account"),
        "factor": factor,
        "codes_left": factor.recovery_codes.count() if factor is not None else 0,
        "begun": begun,
        "qr": qr_code(factors.address_of(begun)) if begun is not None else "",
        "form": (ConfirmForm if begun is not None else CodeForm)(label_suffix=""),
        **shown,
    }
    response = TemplateResponse(request, "admin/security.html", context)
    if begun is not None or "codes" in shown:
        response["Cache-Control"] = "no-store"
    return slowed(response, gate)


def qr_code(text: str) -> SafeString:
    """Return a QR code as SVG without styles or scripts; dark on light in both themes, as scanners want it."""
    drawn = segno.make(text, error="m", micro=False).svg_inline(scale=MODULE, border=4, light="#fff")
    return mark_safe(drawn)  # noqa: S308  # drawn from numbers; the text is only in its shape


def _begin(request: HttpRequest, user: User, _gate: Gate) -> HttpResponse:
    if factors.factor_of(user) is None:
        factors.begin(user)
    return HttpResponseRedirect(reverse("admin:security"))


def _confirm(request: HttpRequest, user: User, gate: Gate) -> dict[str, Any] | HttpResponse:
    begun = SecondFactor.objects.filter(user_id=user.pk, confirmed=None).first()
    form = ConfirmForm(request.POST, label_suffix="")
    if begun is None:
        return HttpResponseRedirect(reverse("admin:security"))
    if not form.is_valid():
        return {"form": form}
    if not user.check_password(form.cleaned_data["password"]):
        form.add_error("password", _("This is not your password."))
        return {"form": form}
    codes = factors.confirm(begun, form.cleaned_data["code"].replace(" ", ""), now())
    if codes is None:
        form.add_error("code", _("This code is not right. Is the clock of your phone?"))
        return {"form": form}
    forgive(gate)
    messages.success(request, _("The second factor is on. It is asked for at your next login."))
    return {"codes": codes}


def _off(request: HttpRequest, user: User, gate: Gate) -> dict[str, Any] | HttpResponse:
    form = _code_taken(request, user, gate)
    if form is not None:
        return {"form": form, "doing": "off"}
    factors.remove(user=user, by=user)
    messages.success(request, _("The second factor is off."))
    return HttpResponseRedirect(reverse("admin:security"))


def _codes(request: HttpRequest, user: User, gate: Gate) -> dict[str, Any] | HttpResponse:
    form = _code_taken(request, user, gate)
    if form is not None:
        return {"form": form, "doing": "codes"}
    factor = factors.factor_of(user)
    if factor is None:
        return HttpResponseRedirect(reverse("admin:security"))
    codes = factors.renew_codes(factor)
    audit(user=user, action="recovery_codes_renewed", target=user, tenant=None)
    return {"codes": codes}


def _code_taken(request: HttpRequest, user: User, gate: Gate) -> forms.Form | None:
    """Take a code; None when it was right, else the form with its complaint."""
    form = CodeForm(request.POST, label_suffix="")
    factor = factors.factor_of(user)
    if not form.is_valid():
        return form
    if factor is None or not factors.is_right(factor, form.cleaned_data["code"], now()):
        form.add_error("code", _("This code is not right, or it was used already."))
        return form
    forgive(gate)
    return None


def _slow_form(request: HttpRequest, gate: Gate) -> forms.Form:
    form = (ConfirmForm if request.POST.get("do") == "confirm" else CodeForm)(request.POST, label_suffix="")
    form.is_valid()
    form.add_error(None, wait_words(gate))
    return form
