"""Outside clients against the real gateway; see bin/clients, which installs them. Deselected unless asked for."""

import os
from pathlib import Path

import pytest

from tests.gateway import committed_database, gateway, up

__all__ = ["clients", "committed_database", "gateway", "up"]


@pytest.fixture(scope="session")
def clients() -> Path:
    """The folder that the clients are installed in."""
    folder = os.environ.get("POINTSMAN_CLIENTS", "")
    if not folder or not (Path(folder) / "node_modules").is_dir():
        pytest.fail("Run ./bin/clients: it installs the clients that these tests start.")
    return Path(folder)
