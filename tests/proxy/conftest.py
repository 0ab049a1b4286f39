"""The gateway and its scripted upstream, for all tests of the corridor."""

from tests.gateway import clean_database, committed_database, gateway, up

__all__ = ["clean_database", "committed_database", "gateway", "up"]
