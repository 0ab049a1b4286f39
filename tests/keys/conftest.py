"""A database whose rows other threads see, and a scripted upstream."""

from tests.gateway import clean_database, committed_database, up

__all__ = ["clean_database", "committed_database", "up"]
