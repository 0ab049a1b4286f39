"""What the commands share: reading the file, and printing problems one a line."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from config.declarative.inspection import Inspection
from config.declarative.yaml_file import load


def read_file(name: str, inspection: Inspection) -> Any:
    """Return the document in a file ("-" = standard input). Raises CommandError when it cannot be read."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as exc:
        raise CommandError(f"{name}: {exc.strerror}") from None
    return load(content, inspection)


def print_warnings(lines: tuple[str, ...], stderr: OutputWrapper) -> None:
    for line in lines:
        stderr.write(f"Warning: {line}")


def refused(errors: tuple[str, ...], outcome: str) -> CommandError:
    """Return the exception that ends a command with code 1, each error on a line of its own."""
    count = f"{len(errors)} error" + ("s" if len(errors) != 1 else "")
    return CommandError("\n".join([f"{count}; {outcome}", *errors]))
