"""The two lock files agree with what they lock, and with each other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pins(name: str) -> dict[str, str]:
    """Return normalised name and marker -> version."""
    found = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)( ; .*?)? \\$", (ROOT / name).read_text(), re.MULTILINE)
    return {normal(package) + marker: version for package, version, marker in found}


def normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def wanted(name: str) -> set[str]:
    return {normal(package) for package in re.findall(r"^([A-Za-z][\w.-]*)", (ROOT / name).read_text(), re.MULTILINE)}


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_everything_wanted_is_pinned_with_hashes(name):
    pinned = {key.partition(" ")[0] for key in pins(f"{name}.txt")}
    assert wanted(f"{name}.in") - pinned == set()
    text = (ROOT / f"{name}.txt").read_text()
    assert len(re.findall(r"^[^\s#].*\\\n    --hash=sha256:", text, re.MULTILINE)) == len(pins(f"{name}.txt"))


def test_the_test_environment_runs_the_versions_that_are_shipped():
    dev = pins("requirements-dev.txt")
    assert {key: version for key, version in pins("requirements.txt").items() if dev.get(key) != version} == {}


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_no_registry_address_is_written_down(name):
    assert re.findall(r"https?://|--index-url|--find-links", (ROOT / name).read_text()) == []
