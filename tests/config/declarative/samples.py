"""Documents that tests start from, and how they are applied without asking the network for names."""

import copy
from collections.abc import Mapping
from typing import Any

from config.declarative import Applied, ConfigError, Inspection, apply_document
from config.declarative.resolving import no_lookup
from config.declarative.yaml_file import load

ENVIRON = {
    "RELAY_A_1": "sk-relay-a-000001",
    "OFFICIAL": "sk-official-000001, sk-official-000002",
    "SUPPORT_KEY": "sk-support-0000000000001",
}

# Every field of the format, each with a value of its own.
FULL = """
version: 1
prices:
  - {model: gpt-4o, unit: per_million_tokens, currency: USD, input: "2.50", cached_input: "1.25", output: "10",
     from: 2026-01-01}
  - {model: claude-*, currency: USD, input: "3", cached_input: "0.30", cache_write: "3.75", cache_write_1h: "6",
     output: "15"}
  - {model: gemini-2.5-pro, unit: per_call, currency: CNY, call: "0.031"}
exchange_rates: [{from: USD, to: CNY, rate: "7.10", on: 2026-11-01}]
tenants:
  - slug: acme
    name: Acme search team
    timezone: Asia/Shanghai
    currency: CNY
    alerts: {emails: [ops@example.com], webhook: "https://hooks.example.com/x"}
    prices: [{model: gpt-4o, currency: CNY, input: "20", output: "80", from: 2026-02-01}]
    budgets: [{amount: "9000", currency: CNY, period: total}]
    accounts:
      - {name: relay-a, quota_timezone: Asia/Tokyo, credit: {amount: "500", currency: USD, period: month},
         balance_url: "https://relay-a.example/balance", budgets: [{amount: "100.5", currency: USD, period: day}]}
    upstreams:
      - name: relay-a
        dialect: openai-responses
        base_url: https://relay-a.example/v1
        models: [gpt-4o, gpt-4o-mini]
        aliases: {gpt-4o: openai/gpt-4o}
        max_context_tokens: 128000
        cost_multiplier: "0.8"
        rotation: weighted
        auth: both
        usage_semantics: inclusive
        headers: {X-Title: acme, X-Extra-Token: hush-0123456789}
        timeouts: {connect_s: 5, silence_s: 120}
        enabled: false
        keys:
          - {name: a1, secret: "env:RELAY_A_1", account: relay-a, weight: 2, concurrency: 8, rpm: 60, tpm: 9000,
             per_hour: 700, per_day: 8000}
          - {name: a2, secret: sk-live-0123456789, policy: {preset: keypool, strikes: 2}, enabled: false}
      - {name: official, dialect: anthropic, base_url: "https://official.example", models: auto,
         extra_models: [claude-x], keys_from: "env:OFFICIAL"}
      - {name: local-small, base_url: "https://small.example#", keys: [{name: s1, secret: sk-small-1234567890}]}
    groups:
      - name: main
        strategy: weighted
        basis: speed_and_stability
        members: [{upstream: relay-a, weight: 7}, {upstream: official, weight: 3}]
        last_resort: local-small
        stream_hold: full
        policy: {preset: relay, cool_429_s: 90}
      - {name: cheap, strategy: cheapest, members: [{upstream: local-small}]}
    routes:
      - name: default
        default: true
        rules:
          - {name: cheap-batch, when: {line: support-*, stream: false}, then: {group: cheap}}
          - {name: after-failover, when: {upstream: official}, then: {set: {model: gpt-4o-2024}, continue: true}}
          - {name: night, when: {hours: 22:00-07:00}, then: {deny: "closed at night"}}
          - {name: straight, when: {max_tokens: ">= 32k"}, then: {upstream: official}}
          - {name: everything, then: {group: main}}
      - {name: other, rules: [{name: everything, then: {group: cheap}}]}
    lines:
      - slug: support-bot
        name: Support bot
        route: other
        models: ["gpt-*"]
        limits: {rpm: 600, tpm: 200000, per_day: 20000, tokens_per_day: 5000000, concurrency: 50}
        budgets: [{amount: "1000", currency: CNY, period: month, alert_at: [100, 80], hard: true}]
        charge_multiplier: "1.25"
        on_unpriced: serve
        history: on
        class: batch
        enabled: false
        keys:
          - {name: prod, secret: "env:SUPPORT_KEY", expires: 2030-01-01, limits: {rpm: 5, concurrency: 2},
             enabled: false}
"""

SMALL: dict[str, Any] = {
    "version": 1,
    "tenants": [
        {
            "slug": "acme",
            "accounts": [{"name": "pot"}],
            "upstreams": [
                {
                    "name": "up",
                    "base_url": "https://up.example/v1",
                    "keys": [{"name": "k", "secret": "sk-up-000000001"}],
                },
                {
                    "name": "spare",
                    "base_url": "https://b.example",
                    "keys": [{"name": "k", "secret": "sk-sp-000000001"}],
                },
            ],
            "groups": [{"name": "main", "members": [{"upstream": "up"}, {"upstream": "spare"}]}],
            "routes": [
                {"name": "default", "default": True, "rules": [{"name": "all", "then": {"group": "main"}}]},
                {"name": "quiet"},
            ],
            "lines": [{"slug": "bot", "keys": [{"name": "prod", "secret": "sk-gateway-0000000001"}]}],
        }
    ],
}


def small() -> dict[str, Any]:
    """Return a document of one sound tenant, to be changed at will."""
    return copy.deepcopy(SMALL)


def tenant_of(document: dict[str, Any]) -> dict[str, Any]:
    tenant: dict[str, Any] = document["tenants"][0]
    return tenant


def parsed(text: str) -> tuple[Any, Inspection]:
    inspection = Inspection(ENVIRON)
    return load(text, inspection), inspection


def applied(document: Any, *, prune: bool = False, dry_run: bool = False) -> Applied:
    """Apply a document, or the text of one."""
    inspection = Inspection(ENVIRON)
    content = load(document, inspection) if isinstance(document, str) else document
    return apply_document(content, prune=prune, dry_run=dry_run, inspection=inspection, resolve=no_lookup)


def refusal_of(document: Any, *, prune: bool = False) -> ConfigError:
    """Return the exception that refuses a document."""
    try:
        applied(document, prune=prune)
    except ConfigError as exc:
        return exc
    raise AssertionError("the document was accepted")


def errors_of(document: Any, *, prune: bool = False) -> tuple[str, ...]:
    return refusal_of(document, prune=prune).errors


def with_lines(document: Mapping[str, Any], *lines: Mapping[str, Any]) -> dict[str, Any]:
    """Return the small document with other lines."""
    changed = copy.deepcopy(dict(document))
    changed["tenants"][0]["lines"] = list(lines)
    return changed
