"""The embedded task queue never shows a message that is not whole."""

import os
import threading
from pathlib import Path
from queue import Empty

import pytest

from config.celery import app
from config.file_queue import Transport


@pytest.fixture
def channel(tmp_path: Path):
    folders = {"data_folder_in": str(tmp_path), "data_folder_out": str(tmp_path), "control_folder": str(tmp_path / "c")}
    with app.connection_for_write("filesystem://", transport_options=folders) as connection:
        assert isinstance(connection.transport, Transport)
        yield connection.default_channel


def test_what_is_put_is_got_in_order_and_leaves_nothing(channel, tmp_path: Path) -> None:
    channel._put("celery", {"n": 1, "word": "密钥"})
    assert channel._get("celery") == {"n": 1, "word": "密钥"}
    with pytest.raises(Empty):
        channel._get("celery")
    assert [name for name in os.listdir(tmp_path) if name != "c"] == []


def test_a_reader_beside_the_writer_gets_whole_messages_only(channel) -> None:
    count = 300
    writer = threading.Thread(target=lambda: [channel._put("celery", {"n": n}) for n in range(count)])
    writer.start()
    got: set[int] = set()
    while writer.is_alive() or len(got) < count:
        try:
            got.add(channel._get("celery")["n"])
        except Empty:
            continue
    writer.join()
    assert got == set(range(count))
