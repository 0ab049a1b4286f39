import fcntl
import os
import stat
from dataclasses import replace
from datetime import timedelta, timezone
from decimal import Decimal

import pytest

from billing.spool import Spool, decode, encode
from tests.billing.bundles import NOON, bundle


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


@pytest.fixture
def spool(folder):
    made = Spool(folder)
    yield made
    made.close()


def taken(spool):
    """Everything that may be replayed; removes it."""
    found = []
    for bundles, remove in spool.take():
        found += bundles
        remove()
    return found


class TestText:
    @pytest.mark.parametrize(
        "record",
        [
            {},
            {"charge": None, "price_id": None, "decision": {}},
            {"charge": Decimal("123456789012345678.123456789012")},
            {"created": NOON.astimezone(timezone(timedelta(hours=8)))},
            {"model_requested": "名 \u2028 \x00 \ud83d \U0001f682", "message": 'a"b\\c\n'},
            {"input_tokens": 2**62},
        ],
    )
    def test_a_bundle_comes_back_as_it_was(self, record):
        made = bundle(**record)
        line = encode(made)
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert decode(line) == made

    @pytest.mark.parametrize(
        "line",
        [b"", b"{", b"[]", b"null", b"{}", b'{"record":{}}', b'{"record":{"no":1},"attempts":[],"ledger":[]}', b"\xff"],
    )
    def test_anything_else_is_refused(self, line):
        with pytest.raises(ValueError, match=r"."):
            decode(line)

    def test_a_torn_line_is_refused_wherever_it_is_torn(self):
        line = encode(bundle())
        for size in range(0, len(line) - 1, 37):
            with pytest.raises(ValueError, match=r"."):
                decode(line[:size])


class TestFiles:
    def test_nothing_is_there_before_it_is_needed(self, folder, spool):
        assert (spool.waiting(), taken(spool), folder.exists()) == (False, [], False)

    def test_what_was_appended_is_taken_once(self, spool):
        first, second, third = bundle(), bundle(), bundle()
        spool.append([first, second])
        spool.append([third])
        assert spool.waiting()
        assert taken(spool) == [first, second, third]
        assert (spool.waiting(), taken(spool)) == (False, [])

    def test_only_the_owner_may_read_it(self, folder, spool):
        spool.append([bundle()])
        (file,) = folder.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_what_is_not_removed_is_taken_again(self, spool):
        made = bundle()
        spool.append([made])
        for _ in range(2):
            assert [bundles for bundles, _ in spool.take()] == [[made]]

    def test_appends_during_a_replay_go_to_a_new_file(self, spool):
        old, new = bundle(), bundle()
        spool.append([old])
        for bundles, remove in spool.take():
            spool.append([new])
            assert bundles == [old]
            remove()
        assert taken(spool) == [new]

    def test_the_file_of_a_living_process_is_left_alone(self, folder):
        folder.mkdir()
        other, made = folder / "1.jsonl", bundle()
        with other.open("wb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.write(encode(made))
            handle.flush()
            assert taken(Spool(folder)) == []
        assert taken(Spool(folder)) == [made]

    def test_a_torn_last_line_is_left_out(self, folder):
        folder.mkdir()
        whole = bundle()
        (folder / "1.jsonl").write_bytes(encode(whole) + encode(bundle())[:100])
        assert taken(Spool(folder)) == [whole]

    def test_a_dead_process_may_have_had_our_id(self, folder, spool):
        """In a container every start has the same one: its file is replayed, and nothing is added to a torn line."""
        folder.mkdir()
        old, new = bundle(), bundle()
        left = folder / f"{os.getpid()}.jsonl"
        left.write_bytes(encode(old) + encode(bundle())[:50])
        assert taken(Spool(folder)) == [old]
        left.write_bytes(encode(old) + encode(bundle())[:50])
        spool.append([new])
        assert sorted(taken(spool), key=lambda one: one.record.id) == [old, new]

    def test_a_disk_that_takes_nothing_is_told(self, spool, monkeypatch):
        def full(*_args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            spool.append([bundle()])

    def test_after_a_full_disk_no_line_stands_behind_half_a_line(self, folder, spool, monkeypatch):
        first, lost, last = bundle(), bundle(), bundle()
        spool.append([first])
        real = os.fsync

        def full(descriptor):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - 40)  # as if half of it had found room
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            spool.append([lost])
        monkeypatch.setattr(os, "fsync", real)
        spool.append([last])
        assert taken(spool) == [first, last]

    @pytest.mark.parametrize("odd", [b"[]\n", b'{"record": {"no": 1}}\n', b"[" * 99_999 + b"\n", b"\xff\xfe\n"])
    def test_a_whole_line_that_cannot_be_read_is_kept_for_a_person(self, folder, spool, odd, caplog):
        """Such as one that another release wrote."""
        folder.mkdir()
        whole = bundle()
        (folder / "1.jsonl").write_bytes(encode(whole) + odd + encode(whole)[:100])
        assert taken(spool) == [whole]
        assert spool.refused.read_bytes() == odd
        assert "cannot be read: 1 set aside" in caplog.text
        assert taken(spool) == []

    def test_a_folder_that_cannot_be_made_is_told(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match=r"."):
            Spool(tmp_path / "file" / "spool").append([bundle()])

    def test_what_is_set_aside_is_never_replayed(self, spool):
        made = bundle()
        spool.set_aside(made)
        spool.set_aside(replace(made, attempts=()))
        assert (spool.waiting(), taken(spool)) == (False, [])
        assert [decode(line) for line in spool.refused.read_bytes().splitlines()] == [made, replace(made, attempts=())]
        assert stat.S_IMODE(spool.refused.stat().st_mode) == 0o600
