"""The page about compatibility says what the tests here can make true, and nothing else."""

import re

import pytest

from keys.core.dialect import Dialect
from tests.proxy.dialects import test_answers, test_faults
from tests.proxy.dialects.conftest import SPEAKERS
from tests.proxy.dialects.table import DOCUMENT, TITLES, features_of, page, shown


def rows(text):
    """[(section, feature, cells)] of the page."""
    found, section = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| |"):
            feature, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.append((section, feature, cells))
    return found


def test_the_page_has_a_row_for_each_tested_feature_and_client():
    tested = {*features_of(test_answers), *features_of(test_faults)}
    written = {(section, feature) for section, feature, _ in rows(DOCUMENT.read_text())}
    assert written == {(title, feature) for title in TITLES.values() for feature in tested}


def test_every_client_has_a_title():
    assert set(TITLES) == {speaker.name for speaker in SPEAKERS.values()}


def test_no_cell_says_no():
    for section, feature, cells in rows(DOCUMENT.read_text()):
        assert len(cells) == len(Dialect)
        assert set(cells) <= {"yes", "–"}, (section, feature)
        assert "yes" in cells or re.match("signed", feature), (section, feature)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [([], "–"), (["skipped"], "–"), (["passed", "skipped"], "yes"), (["passed", "failed"], "**no**")],
)
def test_a_cell_is_what_its_tests_were(outcomes, expected):
    assert shown(outcomes) == expected


def test_the_page_is_made_of_outcomes():
    text = page({("openai chat", "openai", "text"): ["passed"], ("openai chat", "gemini", "text"): ["failed"]})
    assert rows(text)[0] == (TITLES["openai chat"], "text", ["yes", "–", "–", "**no**"])
    assert rows(text)[1] == (TITLES["openai responses"], "text", ["–", "–", "–", "–"])
