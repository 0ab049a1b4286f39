"""The admin's site: its name, its menu, and its own pages beside those of the models."""

from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from config.menu import menu_of

# Address below /admin/, name of the page, dotted path of its view: `view(request, site) -> HttpResponse`. The view
# decides what the person may see (tenants.scoping); the site has made sure that it is a staff member.
PAGES: tuple[tuple[str, str, str], ...] = (
    ("start/", "start", "config.pages.start.start_page"),
    ("audit.csv", "audit_csv", "config.pages.audit.audit_csv"),
    ("security/", "security", "config.pages.security.security_page"),
    ("pool/", "pool", "config.pages.pool.pool_page"),
    ("pool/paste/", "pool_paste", "config.pages.paste.paste_page"),
    ("live/", "live", "config.pages.live.live_page"),
    ("live/abort/", "live_abort", "config.pages.live.abort_page"),
    ("statements/", "statements", "config.pages.statements.statements_page"),
    ("statements/csv/", "statements_csv", "config.pages.statements.csv_page"),
    ("statements/close/", "statements_close", "config.pages.statements.close_page"),
    ("dry-run/", "dry_run", "config.pages.dryrun.dry_run_page"),
    ("classifier/", "classifier", "config.pages.classifier.classifier_page"),
)


# Pages that are open before the second factor is set up, when the installation demands one.
WITHOUT_FACTOR = frozenset({"security", "logout", "password_change", "password_change_done"})


def must_set_up(request: HttpRequest) -> bool:
    """Tell whether a person has no second factor and asks for another page than that where it is set up."""
    asked = request.resolver_match.url_name if request.resolver_match is not None else ""
    return asked not in WITHOUT_FACTOR and import_string("tenants.factors.factor_of")(request.user) is None


class PointsmanSite(AdminSite):
    site_header = gettext_lazy("Pointsman")
    site_title = gettext_lazy("Pointsman")
    index_title = gettext_lazy("Overview")
    site_url = None
    enable_nav_sidebar = False
    empty_value_display = "–"

    def get_urls(self) -> list[Any]:
        own = [path(route, self._page(dotted), name=name) for route, name, dotted in PAGES]
        outside = [
            path("login/code/", never_cache(self.login_code), name="login_code"),
            path("welcome/<uidb64>/<token>/", never_cache(self.welcome), name="welcome"),
        ]
        return [*outside, *own, *super().get_urls()]

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Ask for name and password, with a wait after failures, and then for the second factor."""
        if request.method == "GET" and self.has_permission(request):
            return HttpResponseRedirect(reverse("admin:index"))
        return import_string("config.pages.login.login_page")(request, self, extra_context or {})

    def welcome(self, request: HttpRequest, **of_link: str) -> Any:
        """Let an invited person set the password."""
        view = import_string("config.pages.welcome.Welcome")
        return view.as_view(extra_context=self.each_context(request))(request, **of_link)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Django's own page; a change is noted, and guessing the present password is slowed down as at the login."""
        change = import_string("config.pages.login.change_password")
        return change(request, partial(super().password_change, request, extra_context))

    def login_code(self, request: HttpRequest) -> HttpResponse:
        """Ask for the code of the second factor."""
        page = import_string("config.pages.login.code_page")
        return page(request, self)  # type: ignore[no-any-return]  # by the contract of PAGES

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Lead those without a second factor to where they set it up, when the installation demands one."""
        inner = super().admin_view(view, cacheable)

        def guarded(request: HttpRequest, *args: Any, **options: Any) -> Any:
            if settings.POINTSMAN_REQUIRE_TOTP and self.has_permission(request) and must_set_up(request):
                return HttpResponseRedirect(reverse("admin:security"))
            return inner(request, *args, **options)

        return guarded

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Add the menu: what this person may see."""
        context: dict[str, Any] = super().each_context(request)
        return {**context, "menu": menu_of(self, request) if context["has_permission"] else []}

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the dashboard."""
        view = import_string("config.dashboard.page.dashboard")
        return super().index(request, {**(extra_context or {}), **view(request)})

    def _page(self, dotted: str) -> Any:
        def view(request: HttpRequest) -> HttpResponse:
            page = import_string(dotted)  # models and this site exist only once the pages are asked for
            return page(request, self)  # type: ignore[no-any-return]  # by the contract of PAGES

        return self.admin_view(view)
