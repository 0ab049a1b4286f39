from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

from config import secret_files


def test_processes_that_start_together_agree(tmp_path):
    together = Barrier(8)

    def start(_number: int) -> str:
        together.wait()
        return secret_files.read_or_create(tmp_path / "secret.key", lambda: uuid4().hex)

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(start, range(8)))
    assert len(found) == 1
    assert found == {(tmp_path / "secret.key").read_text().strip()}
    assert {path.name for path in tmp_path.iterdir()} == {"secret.key", "secrets.lock"}


def test_a_draft_of_a_killed_process_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 7)
    (tmp_path / ".secret.key.7").write_text("half")
    assert secret_files.read_or_create(tmp_path / "secret.key", lambda: "whole") == "whole"


def test_an_existing_secret_is_never_replaced(tmp_path):
    (tmp_path / "secret.key").write_text("old\n")
    assert secret_files.read_or_create(tmp_path / "secret.key", lambda: "new") == "old"


def test_is_private(tmp_path):
    path = tmp_path / "secret.key"
    secret_files.read_or_create(path, lambda: "x")
    assert secret_files.is_private(path)
    path.chmod(0o640)
    assert not secret_files.is_private(path)
