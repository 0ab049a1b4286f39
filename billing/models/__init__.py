"""What it cost: prices, records with their attempts, the ledger, budgets, statements."""

from billing.models.figures import BudgetSpent, DaySpeed, Forecast, KeyHour, LineDay, LineHour, OutputSize, RollupMark
from billing.models.ledger import Budget, BudgetAlert, BudgetReserved, LedgerEntry, Statement
from billing.models.prices import ALWAYS, ExchangeRate, Price
from billing.models.records import Attempt, RequestRecord, StoredAnswer

__all__ = [
    "ALWAYS",
    "Attempt",
    "Budget",
    "BudgetAlert",
    "BudgetReserved",
    "BudgetSpent",
    "DaySpeed",
    "ExchangeRate",
    "Forecast",
    "KeyHour",
    "LedgerEntry",
    "LineDay",
    "LineHour",
    "OutputSize",
    "Price",
    "RequestRecord",
    "RollupMark",
    "Statement",
    "StoredAnswer",
]
