"""The embedded task queue: kombu's files, each put in place whole.

kombu 5 opens a message's file before it writes it; a worker that looks in between takes it empty and ends.
"""

import uuid
from pathlib import Path
from time import monotonic
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **_options: Any) -> None:  # type: ignore[override]  # as kombu does
        """Write the message beside its name, then rename it: readers look for names that end in `.QUEUE.msg`."""
        name = f"{round(monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        place = Path(self.data_folder_out) / name
        part = place.with_name(f"{name}.part")
        try:
            part.write_text(dumps(payload), encoding="utf-8")
            part.replace(place)
        except OSError as exc:
            raise ChannelError(f"cannot add {name} to the queue") from exc


class Transport(filesystem.Transport):
    Channel = Channel
