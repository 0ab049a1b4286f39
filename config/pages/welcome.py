"""Where an invited person sets the password, by the link of tenants/invitations.py."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenants.services import audit


class Welcome(PasswordResetConfirmView):
    """Django's own view: it keeps the token out of the address and the referrer."""

    template_name = "admin/welcome.html"
    success_url = reverse_lazy("admin:login")
    title = gettext_lazy("Set your password")
    reset_url_token = "choose"  # noqa: S105  # what stands in the address instead of the token

    def form_valid(self, form: Any) -> HttpResponse:
        """Set it and go to the login, which also asks for a second factor."""
        answer = super().form_valid(form)
        audit(user=form.user, action="changed", target=form.user, tenant=None, fields={"password": "changed"})
        messages.success(self.request, _("Your password is set. Log in with it."))
        return answer
