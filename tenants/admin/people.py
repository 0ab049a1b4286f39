"""People: accounts (the operator's page) and their roles in tenants (a team admin's page)."""

from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth import get_user_model, password_validation
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from tenants.adminbase import ScopedRelatedFilter, ScopedTabularInline, TenantScopedAdmin
from tenants.adminchips import ago, chip
from tenants.adminforms import ScopedForm
from tenants.factors import remove as remove_factor
from tenants.formfields import SecretField
from tenants.invitations import mail_link, path_of
from tenants.login_models import SecondFactor
from tenants.models import Membership
from tenants.scoping import ADMINS, NOBODY, NOTHING, OPERATIONS, Reach
from tenants.services import audit
from tenants.throttling import unlock

# A sentence of Django's own form that its Chinese catalogue lacks: named here, so that ours has it.
DJANGO_SAYS = gettext_noop("After you’ve created a user, you’ll be able to edit more user options.")


class MembershipForm(ScopedForm):
    """Names a person by username; makes the account when there is none."""

    reach: ClassVar[Reach] = NOTHING
    constraint_words = {
        "one_membership_per_person_and_tenant": gettext_lazy("This person has a role in this team already.")
    }

    username = forms.CharField(label=gettext_lazy("username"), max_length=150, required=False)
    email = forms.EmailField(label=gettext_lazy("e-mail address"), required=False)
    password = SecretField(label=gettext_lazy("password"))

    class Meta:
        model = Membership
        fields = ("tenant", "role")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made_user: User | None = None
        if self.instance.pk is None:
            self.fields["username"].help_text = _("A new name makes a new account.")
            self.fields["email"].help_text = _("For a new account only: the link goes there.")
            self.fields["password"].help_text = _(
                "For a new account only. Empty = the person sets it by a link, which is mailed or shown to you once."
            )
            return
        for name in ("username", "email"):  # a declared field stays in the form although the page has none
            del self.fields[name]
        self.fields["password"].help_text = _("Empty = leave it as it is.")

    def clean_username(self) -> str:
        """Find the person, or check that an account of that name may be made: other capitals make no other name."""
        name: str = User.normalize_username(self.cleaned_data["username"])
        if not name:
            raise ValidationError(_("Write a username."))
        alike = User.objects.filter(username__iexact=name)
        person = alike.filter(username=name).first() or alike.first()
        if person is None:
            User.username_validator(name)
            self.made_user = User(username=name, is_staff=True)
            return name
        if not self._may_add(person):
            raise ValidationError(_("This name is taken by a person outside your team; ask the platform operator."))
        self.instance.user = person
        return name

    def clean_password(self) -> str:
        """Hold a password to the rules."""
        password: str = self.cleaned_data["password"]
        if self.instance.pk is None and self.made_user is None and password:
            raise ValidationError(_("This person has an account already; leave the password empty."))
        if self.instance.pk is not None and password and not may_set_password(self.reach, self.instance):
            raise ValidationError(_("Only the platform operator may set this person's password."))
        if password:
            password_validation.validate_password(password, self.made_user or self.instance.user)
        return password

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        tenant = self.cleaned_data.get("tenant")
        known = getattr(self.instance, "user_id", None)
        if tenant is not None and known and Membership.objects.filter(user_id=known, tenant=tenant).exists():
            self.add_error("username", _("This person has a role in this team already."))
        return cleaned

    def _may_add(self, person: User) -> bool:
        if self.reach.operator:
            return True
        mine = self.reach.tenants(ADMINS)
        return not person.is_superuser and Membership.objects.filter(user=person, tenant__in=mine).exists()

    def _get_validation_exclusions(self) -> set[str]:
        return super()._get_validation_exclusions() | {"user"}


def may_set_password(reach: Reach, membership: Membership) -> bool:
    """A password opens every team of a person: a team admin needs to be admin of all of them."""
    if reach.operator:
        return True
    if membership.user.is_superuser:
        return False
    teams = set(Membership.objects.filter(user=membership.user).values_list("tenant_id", flat=True))
    return teams <= reach.tenants(ADMINS)


@admin.register(Membership)
class MembershipAdmin(TenantScopedAdmin):
    form = MembershipForm
    readers = OPERATIONS
    list_display = ("user", "tenant", "role", "last_login")
    list_filter = (("tenant", ScopedRelatedFilter), "role")
    list_select_related = ("user", "tenant")
    search_fields = ("user__username",)
    autocomplete_fields = ("tenant",)
    actions = ("invite_selected",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("tenant", "username", "email", "password", "role")
        if self.has_change_permission(request, obj):
            return ("user", "tenant", "role", "password")
        return ("user", "tenant", "role")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("user", "tenant") if obj is not None else ()

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("user", "tenant")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        made.reach = self.reach(request)  # type: ignore[attr-defined]  # a class made for this request
        return made

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_touch(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_touch(request, obj) and super().has_delete_permission(request, obj)

    def _may_touch(self, request: HttpRequest, obj: Any) -> bool:
        """Nobody locks themselves out, and an operator's roles are the operator's business."""
        if obj is None or self.reach(request).operator:
            return True
        return obj.user_id != request.user.pk and not obj.user.is_superuser

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Make the account first, or set its password."""
        made = form.made_user
        if made is not None:
            password = form.cleaned_data["password"]
            made.email = form.cleaned_data["email"]
            made.set_password(password or None)  # None = no password opens it
            made.save()
            request.invited = None if password else made  # type: ignore[attr-defined]  # read by changeform_view
            obj.user = made
            audit(user=request.user, action="added", target=made, tenant=obj.tenant)  # type: ignore[arg-type]
        elif change and form.cleaned_data.get("password"):
            obj.user.set_password(form.cleaned_data["password"])
            obj.user.save(update_fields=["password"])
        super().save_model(request, obj, form, change)

    # --- links that set a password ---

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Hand out the link once the new account is committed: mail is not sent inside a transaction."""
        answer = super().changeform_view(request, *args, **kwargs)
        made: User | None = getattr(request, "invited", None)
        return self._hand_out(request, made) if made is not None else answer

    @admin.action(description=gettext_lazy("New link for setting a password …"), permissions=["change"])
    def invite_selected(self, request: HttpRequest, rows: Any) -> Any:
        """For who has lost the link or the password; one at a time, as the link is shown once."""
        chosen = list(self.writable(request, rows).select_related("user")[:2])
        if len(chosen) != 1:
            self.message_user(request, _("Choose one person."), messages.WARNING)
            return None
        row = chosen[0]
        if not self._may_touch(request, row) or not may_set_password(self.reach(request), row):
            text = _("Only the platform operator may set this person's password.")
            self.message_user(request, text, messages.ERROR)
            return None
        self.note(request, "invited", row, {})
        return self._hand_out(request, row.user)

    def _hand_out(self, request: HttpRequest, user: User) -> HttpResponse:
        """Mail the link, or show it once in the answer itself.

        It is mailed where the installation's own address is configured: a Host header may say anything.
        """
        way = path_of(user)
        public: str = settings.POINTSMAN_PUBLIC_URL
        url = public.rstrip("/") + way if public else request.build_absolute_uri(way)
        back = HttpResponseRedirect(reverse("admin:tenants_membership_changelist"))
        if public and mail_link(user=user, url=url):
            self.message_user(request, _("A link went to %(to)s.") % {"to": user.email}, messages.SUCCESS)
            return back
        context = {
            **self.admin_site.each_context(request),
            "title": _("Link for %(name)s") % {"name": user.get_username()},
            "opts": self.opts,
            "url": url,
            "failed": bool(public and user.email) and settings.POINTSMAN_MAIL_CONFIGURED,
        }
        answer = TemplateResponse(request, "admin/tenants/membership/invited.html", context)
        answer["Referrer-Policy"] = "no-referrer"
        return answer

    @admin.display(description=gettext_lazy("last login"))
    def last_login(self, row: Membership) -> SafeString:
        return ago(row.user.last_login)


class RolesOfPerson(ScopedTabularInline):
    model = Membership
    fk_name = "user"
    writers = NOBODY
    fields = ("tenant", "role")
    autocomplete_fields = ("tenant",)


admin.site.unregister(User)
admin.site.unregister(Group)  # what a person may do follows from roles in tenants


@admin.register(get_user_model())
class PersonAdmin(TenantScopedAdmin, UserAdmin):  # type: ignore[type-arg]  # django-stubs' generics do not subscript
    """Accounts. No tenant owns a person, so this page is the operator's."""

    form = UserChangeForm  # type: ignore[assignment]  # no tenant owns a person
    readers = NOBODY
    writers = NOBODY
    list_display = ("username", "email", "is_active", "is_superuser", "factor", "last_login")
    list_filter = ("is_active", "is_superuser")
    actions = ("unlock_selected", "remove_factors")
    filter_horizontal = ()
    inlines = (RolesOfPerson,)
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (gettext_lazy("Person"), {"fields": ("first_name", "last_name", "email")}),
        (
            gettext_lazy("Access"),
            {
                "fields": ("is_active", "is_staff", "is_superuser"),
                "description": gettext_lazy(
                    "Staff may log in here and see the teams in which they have a role; superusers see all."
                ),
            },
        ),
        (gettext_lazy("Dates"), {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")

    def get_queryset(self, request: HttpRequest) -> Any:
        confirmed = SecondFactor.objects.filter(user=OuterRef("pk"), confirmed__isnull=False)
        return super().get_queryset(request).annotate(has_factor=Exists(confirmed))

    @admin.display(description=gettext_lazy("second factor"))
    def factor(self, row: Any) -> SafeString:
        return chip("good", _("on")) if row.has_factor else chip("off", _("off"))

    @admin.action(description=gettext_lazy("Let them try to log in again at once"), permissions=["change"])
    def unlock_selected(self, request: HttpRequest, rows: Any) -> None:
        """Forget their failed logins."""
        for row in rows:
            unlock(username=row.get_username(), user_id=row.pk)
            self.note(request, "login_unlocked", row, {})
        self.message_user(request, _("Their failed logins are forgotten."), messages.SUCCESS)

    @admin.action(description=gettext_lazy("Switch their second factor off"), permissions=["change"])
    def remove_factors(self, request: HttpRequest, rows: Any) -> None:
        """For who has lost the phone and the recovery codes."""
        user: Any = request.user
        gone = [row.get_username() for row in rows if remove_factor(user=row, by=user)]
        if gone:
            text = _("Switched off for %(names)s.") % {"names": ", ".join(gone)}
            self.message_user(request, text, messages.SUCCESS)
        else:
            self.message_user(request, _("None of them has a second factor."), messages.WARNING)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Django's own password page saves by itself: note it here."""
        if request.path.endswith("/password/"):
            self.note(request, "changed", obj, {"password": "changed"})
        return super().log_change(request, obj, message)
