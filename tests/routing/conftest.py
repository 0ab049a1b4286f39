"""A database whose rows are committed, for the snapshot's keeper."""

from tests.gateway import clean_database, committed_database

__all__ = ["clean_database", "committed_database"]
