"""The gateway and its scripted upstream, for all tests of the corridor."""

from tests.gateway import committed_database, gateway, up

__all__ = ["committed_database", "gateway", "up"]
