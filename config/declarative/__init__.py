"""The declarative file: read, judged, compared with the database, applied, and written back out."""

from config.declarative.inspection import ConfigError, Inspection
from config.declarative.service import Applied, apply_document

__all__ = ["Applied", "ConfigError", "Inspection", "apply_document"]
