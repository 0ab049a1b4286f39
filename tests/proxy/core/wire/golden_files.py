"""What every ordered pair of dialects makes of the samples, kept as files that a person has read.

`python -m tests.proxy.core.wire.golden_files` writes them anew; read the difference before it is committed.
"""

import json
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from typing import Any

from keys.core.dialect import Dialect
from proxy.core.sse import Event, Framer
from proxy.core.wire.translate import answer_from_form, answer_to_form, from_form, to_form
from proxy.core.wire.translate_stream import StreamTranslator
from tests.proxy.core.wire.samples import ANSWERS, MODELS, REQUESTS
from tests.proxy.core.wire.stream_samples import STREAMS

FOLDER = Path(__file__).parent / "golden"
PAIRS = list(permutations(Dialect, 2))
SEED = "seed-1"
CREATED = 1_770_000_000


def translator(source: Dialect, target: Dialect) -> StreamTranslator:
    """For the client whose request is the sample of its dialect."""
    return StreamTranslator(
        source, target, to_form(target, REQUESTS[target]), model="shown", seed=SEED, created=CREATED
    )


def translated(source: Dialect, target: Dialect, chunks: Iterable[bytes]) -> bytes:
    """A whole stream."""
    translate, framer = translator(source, target), Framer()
    events: list[Event] = [event for chunk in chunks for event in framer.feed(chunk)]
    out = [part for event in events + framer.close() for part in translate.feed(event)]
    return b"".join(out + translate.close())


def produce(source: Dialect, target: Dialect) -> dict[str, Any]:
    """Request from source to target; answer and stream of a source upstream for a target client."""
    body, dropped = from_form(target, to_form(source, REQUESTS[source]), model=MODELS[target])
    answer = answer_to_form(source, ANSWERS[source], seed=SEED)
    client = to_form(target, REQUESTS[target])
    return {
        "request": body,
        "dropped": list(dropped),
        "answer": answer_from_form(target, answer, client, model="shown", created=CREATED),
        "stream": translated(source, target, [STREAMS[source]]).decode().split("\n\n"),
    }


def path(source: Dialect, target: Dialect) -> Path:
    """The file of a pair."""
    return FOLDER / f"{source}_to_{target}.json"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one, other in PAIRS:
        text = json.dumps(produce(one, other), ensure_ascii=False, indent=1)
        path(one, other).write_text(text + "\n", encoding="utf-8")
