"""Amounts and token counts in templates, as everywhere in the admin."""

from django import template

from billing import adminmoney

register = template.Library()
register.simple_tag(adminmoney.amount, name="amount")
register.simple_tag(adminmoney.tokens, name="tokens")
