"""apply, export and check_config as a person types them."""

import io
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from keys.models import Upstream, UpstreamKey
from routing.models import RoutingRule
from tenants.models import GatewayKey, Tenant

pytestmark = pytest.mark.django_db

FILE = """
tenants:
  - slug: acme
    upstreams: [{name: up, base_url: "https://1.1.1.1/v1", keys: [{name: k, secret: "env:UP_KEY"}]}]
    groups: [{name: main, members: [{upstream: up}]}]
    routes: [{name: default, default: true, rules: [{name: all, then: {group: main}}]}]
    lines: [{slug: bot, keys: [{name: prod}]}]
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UP_KEY", "sk-up-00000000000000000001")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pointsman.yaml"
    path.write_text(FILE)
    return path


def run(command: str, *arguments: Any) -> tuple[str, str]:
    """Return what a command prints, (standard output, standard error)."""
    out, err = io.StringIO(), io.StringIO()
    call_command(command, *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def refused(command: str, *arguments: Any) -> list[str]:
    """Return the lines of a refusal."""
    with pytest.raises(CommandError) as caught:
        run(command, *arguments)
    assert caught.value.returncode == 1
    return str(caught.value).splitlines()


def test_apply_prints_the_diff_and_the_new_key_once(file: Path) -> None:
    out, err = run("apply", str(file))
    lines = out.splitlines()
    assert lines[0] == "+ tenants[acme] (name acme)"
    assert "+ tenants[acme].upstreams[up].keys[k] (secret …000001)" in lines
    assert lines[-1].startswith("Gateway key acme/bot/prod: sk-pm-")
    assert len(lines[-1].split(": ")[1]) == 46
    assert err == ""
    assert UpstreamKey.objects.get().secret == "sk-up-00000000000000000001"
    assert run("apply", str(file)) == ("No changes.\n", "")


def test_apply_dry_run(file: Path) -> None:
    out, _err = run("apply", "--dry-run", str(file))
    assert out.splitlines()[-1] == "Dry run: nothing was changed."
    assert "sk-pm-" not in out
    assert not Tenant.objects.exists()
    run("apply", str(file))
    assert run("apply", "--dry-run", str(file))[0] == "No changes.\n"


def test_apply_prune(file: Path) -> None:
    run("apply", str(file))
    file.write_text("tenants: [{slug: acme}]")
    assert run("apply", str(file))[0] == "No changes.\n"
    assert "- tenants[acme].upstreams[up]: requests no longer go there\n" in run("apply", "--prune", str(file))[0]
    assert not Upstream.objects.exists()


def test_apply_refuses_with_one_line_for_each_error(file: Path) -> None:
    file.write_text(FILE.replace("upstream: up", "upstream: down").replace("group: main", "group: x"))
    assert refused("apply", str(file)) == [
        "2 errors; nothing was changed",
        'tenants[0].groups[0].members[0].upstream: unknown upstream "down"; known: up',
        'tenants[0].routes[0].rules[0].then.group: unknown group "x"; known: main',
    ]
    assert not Tenant.objects.exists()


def test_apply_prints_warnings_beside_errors(file: Path) -> None:
    file.write_text("tenants: [{slug: acme, typo: 1, groups: [{name: empty}]}]")
    err = io.StringIO()
    with pytest.raises(CommandError):
        call_command("apply", str(file), stderr=err)
    assert err.getvalue() == (
        "Warning: tenants[0].groups[0]: has no members: requests that come here find no upstream\n"
    )


def test_apply_of_no_yaml_and_of_no_file(file: Path) -> None:
    file.write_text("tenants: [")
    assert refused("apply", str(file)) == [
        "1 error; nothing was changed",
        "line 1, column 11: expected the node content, but found '<stream end>'",
    ]
    assert refused("apply", str(file.parent / "none.yaml"))[0].endswith("none.yaml: No such file or directory")
    assert refused("apply", str(file.parent)) == [f"{file.parent}: Is a directory"]


def test_apply_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FILE.encode())))
    run("apply", "-")
    assert Tenant.objects.get().slug == "acme"


def test_apply_with_a_wrong_encryption_key_is_one_line(file: Path, settings: Any) -> None:
    run("apply", str(file))
    settings.POINTSMAN_ENCRYPTION_KEYS = (Fernet.generate_key().decode(),)
    [line] = refused("apply", str(file))
    assert line.startswith("tenants_installationsecret.value was encrypted with a key that is not in ")
    [_count, line] = refused("check_config")
    assert line.startswith("tenants_installationsecret.value was encrypted with a key that is not in ")


def test_export_goes_back_into_apply(file: Path) -> None:
    run("apply", str(file))
    out, err = run("export")
    assert "secret: !redacted\n" in out
    assert "sk-up" not in out
    assert err == ""
    file.write_text(out)
    assert run("apply", "--prune", str(file)) == ("No changes.\n", "")
    assert run("export", "--tenant", "acme")[0] == out
    assert refused("export", "--tenant", "other") == ['unknown tenant "other"']


def test_check_config_of_a_file(file: Path) -> None:
    assert run("check_config", str(file)) == ("The configuration has no errors.\n", "")
    assert not Tenant.objects.exists()
    file.write_text("tenants: [{slug: acme, keys: []}]")
    assert refused("check_config", str(file)) == [
        f"1 error; {file} cannot be used",
        "tenants[0].keys: unknown field; known: slug, name, timezone, currency, enabled, alerts, prices, accounts, "
        "upstreams, groups, routes, lines, budgets",
    ]


def test_check_config_of_the_database(file: Path) -> None:
    run("apply", str(file))
    assert run("check_config")[0] == "The configuration has no errors.\n"
    Upstream.objects.update(usage_semantics="odd", base_url="http://127.0.0.1:9/v1")
    RoutingRule.objects.update(when={"stream": "perhaps"})
    UpstreamKey.objects.update(secret="a b")
    GatewayKey.objects.update(name="a\tb")
    err = io.StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("check_config", stderr=err)
    assert str(caught.value).splitlines() == [
        "4 errors; the configuration cannot be used",
        'tenants[acme].upstreams[up].usage_semantics: unknown value "odd"; known: auto, inclusive, exclusive, openai, '
        "anthropic",
        "tenants[acme].lines[bot].keys[a\tb].name: contains a control character",
        "tenants[acme].routes[default].rules[all].when.stream: must be true or false",
        "tenants[acme].upstreams[up].keys[k].secret: contains a space or line break",
    ]
    assert "tenants[acme].upstreams[up].base_url: 127.0.0.1 is a loopback address: calls are refused" in err.getvalue()


def test_check_config_of_impossible_settings(settings: Any) -> None:
    settings.POINTSMAN_WORKERS, settings.REDIS_URL = 2, ""
    lines = refused("check_config")
    assert lines[0] == "1 error; the configuration cannot be used"
    assert lines[1].startswith("POINTSMAN_WORKERS is 2 but REDIS_URL is not set")
