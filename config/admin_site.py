"""The admin's site: its name, its menu, and its own pages beside those of the models."""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy

from config.menu import menu_of

# Address below /admin/, name of the page, dotted path of its view: `view(request, site) -> HttpResponse`. The view
# decides what the person may see (tenants.scoping); the site has made sure that it is a staff member.
PAGES: tuple[tuple[str, str, str], ...] = (
    ("start/", "start", "config.pages.start.start_page"),
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


class PointsmanSite(AdminSite):
    site_header = gettext_lazy("Pointsman")
    site_title = gettext_lazy("Pointsman")
    index_title = gettext_lazy("Overview")
    site_url = None
    enable_nav_sidebar = False
    empty_value_display = "–"

    def get_urls(self) -> list[Any]:
        own = [path(route, self._page(dotted), name=name) for route, name, dotted in PAGES]
        return [*own, *super().get_urls()]

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
