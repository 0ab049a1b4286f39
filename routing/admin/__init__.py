"""Pages of groups, routes and rules."""

from routing.admin import groups, routes

__all__ = ["groups", "routes"]
