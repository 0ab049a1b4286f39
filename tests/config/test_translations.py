"""Both languages are whole, and a person gets the one they asked for.

After a change of words: `django-admin makemessages -l zh_Hans --no-location -i .venv -i tests`, write what is new into
locale/zh_Hans/LC_MESSAGES/django.po, then `django-admin compilemessages -l zh_Hans`. Both need Debian's gettext.
"""

import gettext
import html
import re
from datetime import timedelta

import pytest
from django.template import Context, Template
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import override

from keys.core.addresses import NOTHING_ALLOWED, refusal, url_problem
from keys.core.policy_check import policy_problems
from routing.core.rule_checks import RuleShape, never_matches, validate_rule
from tenants.adminchips import ago, duration
from tenants.core.credentials import malformed
from tenants.corewords import PHRASES, core_words
from tests import factories
from tests.config.admin_world import person, team
from tests.config.catalogue import FOLDER, entries, marked

ENTRIES = [entry for entry in entries() if entry.text]
SLOT = re.compile(r"%\(\w+\)s|%s")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# The same in both languages: names of products, fields and standards.
NAMES = {
    *("Anthropic", "Gemini", "OpenAI chat", "OpenAI responses", "Pointsman", "SHA-256", "webhook"),
    *("max tokens", "max_tokens is %(items)s", "%(why)s.", "%(auth)s; %(permission)s."),
}
UNSEEN = re.compile(r"<(script|style|code|pre)\b.*?</\1>|<[^>]*>", re.DOTALL)
TITLES = re.compile(r'(?:title|aria-label|placeholder|alt|data-label|data-done)="([^"]*)"')


# --- the catalogue ---


def test_every_entry_is_translated():
    assert [entry.key for entry in entries() if "fuzzy" in entry.flags] == []
    assert [entry.key for entry in ENTRIES if set(entry.translations) != {0}] == []
    plain = {entry.text for entry in ENTRIES if not CHINESE.search(entry.translations[0])}
    assert plain == NAMES


def test_placeholders_agree():
    def slots(text):
        return set(SLOT.findall(text))

    torn = [
        entry.key
        for entry in ENTRIES
        if any(slots(text) != slots(entry.translations[0]) for text in (entry.text, entry.plural or entry.text))
    ]
    assert torn == []


def test_the_catalogue_holds_just_what_the_sources_mark():
    known, asked = {entry.key for entry in ENTRIES}, marked()
    assert {text: file for text, file in asked.items() if text not in known} == {}
    assert known - set(asked) == set()


def test_the_compiled_catalogue_is_the_written_one():
    with (FOLDER / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)._catalog
    assert "Plural-Forms: nplurals=1; plural=0;" in compiled.pop("")
    # A plural is kept under its text and the number of the form, of which Chinese has one.
    assert compiled == {(entry.key, 0) if entry.plural else entry.key: entry.translations[0] for entry in ENTRIES}


# --- pages ---


@pytest.fixture
def alpha():
    return team("alpha")


def seen(answer):
    """Return what a person reads: texts and the words behind hovers and labels, without code."""
    text = answer.content.decode()
    return html.unescape("\n".join([UNSEEN.sub("\n", text), *TITLES.findall(text)]))


def english_left(text):
    """Return our own phrases, of two words and more, that stand in a text untranslated."""
    phrases = {entry.text for entry in ENTRIES if " " in entry.text.strip() and "%" not in entry.text} - NAMES
    return [phrase for phrase in phrases if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text)]


def pages(made):
    key = made.gateway_key.pk
    return {
        reverse("admin:index"): "需要关注",
        reverse("admin:pool"): "连续失败",
        reverse("admin:pool_paste"): "密钥，每行一个",
        reverse("admin:live"): "没有进行中的请求",
        reverse("admin:dry_run"): "请求会发往哪里",
        reverse("admin:classifier"): "这个错误意味着什么",
        reverse("admin:statements"): "账单",
        reverse("admin:billing_requestrecord_changelist") + "?period=all": "请求",
        reverse("admin:billing_requestrecord_change", args=[made.rows["billing.RequestRecord"].pk]): "尝试链",
        reverse("admin:tenants_gatewaykey_change", args=[key]): "网关密钥",
        reverse("admin:tenants_gatewaykey_revoke") + f"?ids={key}": "1 个网关密钥将在 2 秒内永久失效",
        reverse("admin:routing_routingrule_changelist"): "路由规则",
        reverse("admin:keys_upstream_add"): "每行一个，单位为秒",
    }


@pytest.mark.django_db
def test_no_english_is_left_on_chinese_pages(client, alpha):
    client.force_login(person("root", is_superuser=True))
    left = {}
    for address, expected in pages(alpha).items():
        answer = client.get(address, headers={"accept-language": "zh-CN,zh;q=0.9,en;q=0.5"})
        text = seen(answer)
        assert answer.status_code == 200, address
        assert '<html lang="zh-hans"' in answer.content.decode(), address
        if "/live/" not in address:  # what it says hangs on whether a gateway runs in this process
            assert expected in text, address
        left |= {address: found} if (found := english_left(text)) else {}
    assert left == {}


@pytest.mark.django_db
def test_the_search_for_english_finds_some(client, alpha):
    client.force_login(person("root", is_superuser=True))
    assert "Times are in" not in english_left(seen(client.get(reverse("admin:pool"))))  # has a slot: not searched for
    assert {"Paste many keys", "why, last error"} <= set(english_left(seen(client.get(reverse("admin:pool")))))


# --- whose language ---


def language(client, **headers):
    return re.search(r'<html lang="([\w-]+)"', client.get(reverse("admin:login"), headers=headers).content.decode())[1]


def choose(client, code):
    answer = client.post(reverse("set_language"), {"language": code, "next": reverse("admin:login")})
    assert answer.url == reverse("admin:login")


@pytest.mark.django_db
def test_the_installations_language_comes_last(client, settings):
    assert language(client) == "en"
    settings.LANGUAGE_CODE = "zh-hans"
    assert language(client) == "zh-hans"
    assert language(client, **{"accept-language": "fr"}) == "zh-hans"
    assert language(client, **{"accept-language": "en-GB,en;q=0.8"}) == "en"


@pytest.mark.django_db
def test_a_persons_choice_beats_the_browser(client):
    chinese, english = {"accept-language": "zh-CN"}, {"accept-language": "en"}
    assert (language(client, **chinese), language(client, **english)) == ("zh-hans", "en")
    choose(client, "zh-hans")
    assert language(client, **english) == "zh-hans"
    choose(client, "en")
    assert language(client, **chinese) == "en"


@pytest.mark.django_db
def test_each_page_offers_the_other_language(client):
    client.force_login(person("root", is_superuser=True))
    text = client.get(reverse("admin:pool")).content.decode()
    assert f'action="{reverse("set_language")}"' in text
    assert 'name="language" value="zh-hans" lang="zh-hans">简体中文</button>' in text
    assert '<input type="hidden" name="next" value="/admin/pool/">' in text


# --- numbers, times, and what the cores say ---


@pytest.mark.parametrize("code", ["en", "zh-hans"])
def test_thousands_are_marked_alike(code):
    with override(code):
        assert Template("{{ n }} {{ n|stringformat:'d' }}").render(Context({"n": 1234567})) == "1,234,567 1234567"


@pytest.mark.django_db
def test_numbers_in_addresses_fields_and_names_stay_plain(client, alpha):
    client.force_login(person("root", is_superuser=True))
    entry = factories.LedgerEntryFactory(record=alpha.rows["billing.RequestRecord"], kind="credit", line_id=1234567)
    text = client.get(reverse("admin:billing_ledgerentry_change", args=[entry.pk])).content.decode()
    assert "1234567" in text
    assert "1,234,567" not in text
    key = alpha.rows["keys.UpstreamKey"]
    type(key).objects.filter(pk=key.pk).update(tpm=2500000)
    form = client.get(reverse("admin:keys_upstreamkey_change", args=[key.pk])).content.decode()
    assert 'name="tpm" value="2500000"' in form


def test_times_read_well_in_chinese():
    with override("zh-hans"):
        assert [duration(each) for each in (41, 600, 10800, 259200)] == ["41 秒", "10 分钟", "3 小时", "3 天"]
        assert ">2 分钟前</time>" in ago(now() - timedelta(seconds=130))
    with override("en"):
        assert [duration(each) for each in (41, 600, 10800, 259200)] == ["41 s", "10 min", "3 h", "3 d"]


def told_by_the_cores():
    """Return what the cores really say, of each kind."""
    twice = [RuleShape("first", {}, decides=True), RuleShape("second", {"model": "gpt-*"}, decides=True)]
    rule = validate_rule({"hours": "25:00", "input_tokens": "many", "model": ""}, {"deny": "x" * 301, "set": {"n": 1}})
    return [
        malformed("a b"),
        malformed("é"),
        url_problem("ftp://a.example"),
        url_problem("http://u@a.example"),
        refusal("127.0.0.1", NOTHING_ALLOWED),
        refusal("localhost", NOTHING_ALLOWED),
        refusal("db.internal.example", NOTHING_ALLOWED, "10.0.0.7"),
        *(text for _name, text in policy_problems({"preset": "x", "strikes": 1.5, "cool_strike_s": -1})),
        *(text.partition(": ")[2] for text in rule),
        *(text for _place, text in never_matches(twice)),
    ]


def test_what_the_cores_say_is_translated_at_the_edge():
    said = told_by_the_cores()
    assert len(said) >= 15
    with override("zh-hans"):
        assert [text for text in said if not CHINESE.search(core_words(text))] == []
        assert core_words("10.0.0.7 is a private address") == "10.0.0.7 是私有地址"
        assert core_words("model is gpt-4o, not claude-*") == "model 为 gpt-4o，要求 claude-*"
        assert core_words("no phrase of ours") == "no phrase of ours"
    with override("en"):
        assert [core_words(text) for text in said] == said


def test_each_phrase_is_read_as_itself():
    with override("zh-hans"):
        read = {phrase: core_words(re.sub(r"%\((\w+)\)s", r"\1", phrase)) for phrase in PHRASES}
    written = {entry.text: re.sub(r"%\((\w+)\)s", r"\1", entry.translations[0]) for entry in ENTRIES}
    assert read == {phrase: written[phrase] for phrase in PHRASES}
