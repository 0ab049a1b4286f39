"""Pages of requests, money and months."""

from billing.admin import budgets, ledger, prices, records, tries

__all__ = ["budgets", "ledger", "prices", "records", "tries"]
