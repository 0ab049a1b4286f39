"""Where Chinese pages differ from Django's own formats: thousands are marked, as adminmoney.py marks them."""

THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
