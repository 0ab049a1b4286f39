"""Pages of people, lines, gateway keys, alerts and the audit log. A tenant's own page is in config.admin."""

from tenants.admin import gateway_keys, lines, people, trails

__all__ = ["gateway_keys", "lines", "people", "trails"]
