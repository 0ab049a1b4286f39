"""The declarative file: read, judged, compared with the database, applied, and written back out."""

from config.declarative.exporting import UnknownTenantError, export_document
from config.declarative.inspection import ConfigError, Inspection
from config.declarative.service import Applied, apply_document, check_document

__all__ = [
    "Applied",
    "ConfigError",
    "Inspection",
    "UnknownTenantError",
    "apply_document",
    "check_document",
    "export_document",
]
