"""Logging in: the password, slowed down after failures, then the code of the second factor for who has one."""

from collections.abc import Callable
from datetime import datetime, timedelta
from math import ceil
from typing import Any, TypeVar

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth import REDIRECT_FIELD_NAME, get_user_model, login
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.dateparse import parse_datetime
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenants.adminchips import duration
from tenants.factors import factor_of, is_right
from tenants.services import audit
from tenants.throttling import Gate, enter_code, enter_login, forgive

PENDING = "login_pending"  # in the session: who gave a right password and still owes a code
PENDING_FOR = timedelta(minutes=5)
TOO_MANY = 429

Response = TypeVar("Response", bound=HttpResponse)


class LoginForm(AdminAuthenticationForm):
    """Counts each try by account and address, and by address, before the password is looked at."""

    gate = Gate()

    def clean(self) -> dict[str, Any]:
        username = self.cleaned_data.get("username") or ""
        if not username or not self.cleaned_data.get("password"):
            return super().clean()
        self.gate = enter_login(username=username, address=address_of(self.request), now=now())
        if self.gate.wait:
            raise ValidationError(wait_words(self.gate), code="throttled")
        try:
            cleaned = super().clean()
        except ValidationError:
            if self.gate.closed:
                _note_wait(User.objects.filter(username=username).first(), address_of(self.request))
            raise
        forgive(self.gate)
        return cleaned


class Login(LoginView):
    """Django's own view; whoever has a second factor goes on to it instead of in."""

    authentication_form = LoginForm
    next_page = "admin:index"
    template_name = "admin/login.html"

    def form_valid(self, form: Any) -> HttpResponse:
        user = form.get_user()
        if factor_of(user) is None:
            return super().form_valid(form)
        session = self.request.session
        session.cycle_key()
        session[PENDING] = {
            "user": user.pk,
            "password": user.get_session_auth_hash(),
            "at": now().isoformat(),
            "next": self.get_success_url(),
        }
        return HttpResponseRedirect(reverse("admin:login_code"))

    def form_invalid(self, form: Any) -> HttpResponse:
        return slowed(super().form_invalid(form), form.gate)


class CodeForm(forms.Form):
    code = forms.CharField(
        label=gettext_lazy("code"),
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "text", "autofocus": True}),
    )


def login_page(request: HttpRequest, site: AdminSite, extra: dict[str, Any]) -> Any:
    """Show the login form, as Django's admin does, and take a login."""
    context = {
        **site.each_context(request),
        "title": _("Log in"),
        "subtitle": None,
        "app_path": request.get_full_path(),
        "username": request.user.get_username(),
        **extra,
    }
    if REDIRECT_FIELD_NAME not in request.GET and REDIRECT_FIELD_NAME not in request.POST:
        context[REDIRECT_FIELD_NAME] = reverse("admin:index")
    return Login.as_view(extra_context=context)(request)


def code_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Ask for the code of the second factor; a right one completes the login."""
    moment = now()
    user = _pending(request, moment)
    factor = factor_of(user) if user is not None else None
    if user is None or factor is None:
        request.session.pop(PENDING, None)
        return HttpResponseRedirect(reverse("admin:login"))
    form = CodeForm(request.POST or None, label_suffix="")
    gate = Gate()
    if request.method == "POST" and form.is_valid():
        gate = enter_code(user_id=user.pk, now=moment)
        if gate.wait:
            form.add_error(None, wait_words(gate))
        elif is_right(factor, form.cleaned_data["code"], moment):
            forgive(gate)
            following = request.session.pop(PENDING)["next"]
            login(request, user)
            return HttpResponseRedirect(_safe(request, following))
        else:
            form.add_error("code", _("This code is not right, or it was used already."))
            if gate.closed:
                _note_wait(user, address_of(request))
    context = {**site.each_context(request), "title": _("Second factor"), "form": form, "username": user.get_username()}
    return slowed(TemplateResponse(request, "admin/login_code.html", context), gate)


def change_password(request: HttpRequest, page: Callable[[], Any]) -> Any:
    """Answer with Django's page; while there is a wait, send back to it with words. A session is not the password."""
    if request.method != "POST":
        return page()
    user: Any = request.user
    gate = enter_login(username=user.get_username(), address=address_of(request), now=now())
    if gate.wait:
        messages.error(request, wait_words(gate))
        return HttpResponseRedirect(reverse("admin:password_change"))
    answer = page()
    changed = isinstance(answer, HttpResponseRedirect)
    if changed:
        audit(user=user, action="changed", target=user, tenant=None, fields={"password": "changed"})
    if changed or "old_password" not in answer.context_data["form"].errors:
        forgive(gate)
    elif gate.closed:
        _note_wait(user, address_of(request))
    return answer


def _pending(request: HttpRequest, moment: datetime) -> User | None:
    """Return who gave a right password a moment ago; nobody when it was changed since."""
    kept = request.session.get(PENDING)
    if not kept:
        return None
    began = parse_datetime(kept["at"])
    user: Any = get_user_model().objects.filter(pk=kept["user"], is_active=True, is_staff=True).first()
    if user is None or began is None or moment - began > PENDING_FOR:
        return None
    return user if constant_time_compare(kept["password"], user.get_session_auth_hash()) else None


def address_of(request: HttpRequest | None) -> str:
    """Return the client's address; behind a trusted proxy the server has put the right one here."""
    return str(request.META.get("REMOTE_ADDR") or "") if request is not None else ""


def wait_words(gate: Gate) -> str:
    """Say how long to wait."""
    seconds = ceil(gate.wait.total_seconds())
    return _("Too many failed tries. Try again in %(time)s.") % {"time": duration(seconds)}


def slowed(response: Response, gate: Gate) -> Response:
    """Say it in HTTP too."""
    if gate.wait:
        response.status_code = TOO_MANY
        response["Retry-After"] = str(ceil(gate.wait.total_seconds()))
    return response


def _safe(request: HttpRequest, address: str) -> str:
    own = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if own else reverse("admin:index")


def _note_wait(user: User | None, address: str) -> None:
    """Note that an account's logins are being slowed down; a name that nobody has may be a mistyped password."""
    if user is not None:
        audit(user=None, action="login_slowed", target=user, tenant=None, fields={"address": address})
