"""Pages of upstreams, their keys, accounts and what happened to them."""

from keys.admin import accounts, history, upstream_keys, upstreams

__all__ = ["accounts", "history", "upstream_keys", "upstreams"]
