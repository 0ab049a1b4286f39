"""`manage.py import_prices` against the real package: operators' prices stand, twice is once."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from billing import catalogue
from billing.models import Price
from billing.pricebook import read_prices
from tenants.models import ConfigVersion
from tests.factories import PriceFactory, RecordFactory, TenantFactory

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 15, tzinfo=UTC)


def run(*args: str) -> list[str]:
    out = io.StringIO()
    call_command("import_prices", *args, stdout=out)
    return out.getvalue().splitlines()


def version() -> int:
    return ConfigVersion.objects.get_or_create(pk=1)[0].version


def test_a_model_is_imported_with_all_its_rates_and_found_by_its_names():
    before = version()
    lines = run("--provider", "anthropic", "--model", "claude-3-7-sonnet*")
    assert lines[-1] == f"{Price.objects.count()} rows written."
    assert version() == before + 1
    row = Price.objects.get(model="claude-3-7-sonnet*")
    rates = [getattr(row, name) for name in ("input", "cached_input", "cache_write", "cache_write_1h", "output")]
    assert rates == [Decimal(text) for text in ("3", "0.3", "3.75", "6", "15")]
    assert (row.tenant, row.currency, row.unit, row.imported) == (None, "USD", "per_million_tokens", True)
    found = read_prices().find(None, ["claude-3-7-sonnet-20250219"], NOW)
    assert found is not None
    assert found.input == 3


def test_importing_again_changes_nothing():
    run("--provider", "anthropic")
    before = list(Price.objects.order_by("pk").values())
    assert len(before) > 20
    assert run("--provider", "anthropic")[-1] == "No changes."
    assert list(Price.objects.order_by("pk").values()) == before


def test_a_dry_run_writes_nothing():
    lines = run("--provider", "openai", "--model", "gpt-4o", "--dry-run")
    assert lines == [
        "+ gpt-4o (USD per million, from always): input=2.50 cached_input=1.25 output=10.00",
        "1 rows would be written.",
    ]
    assert not Price.objects.exists()


@pytest.mark.parametrize("pattern", ["gpt-4o", "GPT-4o", "gpt-*"])
def test_an_operators_price_stands(pattern):
    mine = PriceFactory(model=pattern, input=1)
    lines = run("--provider", "openai", "--model", "gpt-4o")
    assert lines == ["= gpt-4o: your own price stands", "No changes."]
    assert list(Price.objects.values_list("pk", "input")) == [(mine.pk, 1)]


def test_a_tenants_own_price_hinders_nothing():
    PriceFactory(model="gpt-4o", tenant=TenantFactory())
    assert run("--provider", "openai", "--model", "gpt-4o")[-1] == "1 rows written."


def test_a_change_keeps_the_row_that_calls_were_billed_by(monkeypatch):
    run("--provider", "openai", "--model", "gpt-4o")
    old = Price.objects.get()
    RecordFactory(price_id=old.pk)
    prices = SimpleNamespace(input_mtok=Decimal(2), output_mtok=Decimal(8))
    model = SimpleNamespace(id="gpt-4o", match=SimpleNamespace(equals="gpt-4o"), prices=prices)
    monkeypatch.setattr(catalogue, "package", SimpleNamespace(providers=[SimpleNamespace(id="openai", models=[model])]))
    lines = run()
    assert lines[0].startswith("~ gpt-4o (USD per million, from 2")
    assert lines[0].endswith("input=2.50 cached_input=1.25 output=10.00 -> input=2.00 output=8.00")
    kept, new = Price.objects.order_by("pk")
    assert (kept.pk, kept.input, kept.starts) == (old.pk, Decimal("2.5"), date(1970, 1, 1))
    assert (new.input, new.cached_input, new.imported) == (2, None, True)


def test_the_hour_is_no_guess_and_long_prompts_are_told():
    found = catalogue.read_catalogue(["deepseek", "google"])
    names = {one.model for one in found.listed}
    assert "deepseek-chat" not in names
    assert "deepseek-chat: left out, its price depends on the hour" in found.remarks
    assert "gemini-2.5-pro: dearer above 200000 tokens upstream; the base price is taken" in found.remarks
    assert "gemini-2.5-pro" in names


def test_the_first_provider_of_a_name_counts():
    google = {one.model: one for one in catalogue.read_catalogue(["google"]).listed}
    both = [one for one in catalogue.read_catalogue(["anthropic", "google"]).listed if one.model in google]
    assert len({one.model for one in both}) == len(both)
    assert any(one != google[one.model] for one in both if one.model.startswith("claude"))


def test_a_missing_package_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr(catalogue, "package", None)
    with pytest.raises(CommandError, match="optional extra: pip install 'genai-prices"):
        run()


def test_an_unknown_provider_is_refused():
    with pytest.raises(CommandError, match="no provider nobody"):
        run("--provider", "nobody")
