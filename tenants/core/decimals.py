"""Decimals as people write them."""

from decimal import Decimal


def trimmed(value: Decimal) -> str:
    """Write every digit and no zero behind the last one, without exponent. (`normalize` rounds to 28 digits.)"""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
