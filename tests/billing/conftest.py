"""A database whose rows other threads see, for the recorder's tests."""

from tests.gateway import clean_database, committed_database

__all__ = ["clean_database", "committed_database"]
