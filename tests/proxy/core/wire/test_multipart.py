"""Forms: fields are found, one is changed, every other byte stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.wire.jsontext import MalformedBody
from proxy.core.wire.multipart import Field, boundary_of, fields_of, replace_field, values_of


def form(*parts: tuple[str, bytes], boundary: bytes = b"b", front: bytes = b"") -> bytes:
    made = [b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, head.encode(), content) for head, content in parts]
    return front + b"".join(made) + b"--%b--\r\n" % boundary


def text(name: str, value: bytes) -> tuple[str, bytes]:
    return f'Content-Disposition: form-data; name="{name}"', value


@given(st.lists(st.tuples(st.sampled_from(["model", "x", "file"]), st.binary(max_size=40)), max_size=5))
def test_contents_of_any_bytes(parts):
    parts = [(name, value) for name, value in parts if b"--b" not in value]
    body = form(*(text(name, value) for name, value in parts))
    found = fields_of(body, b"b")
    assert [(field.name, body[field.start : field.end]) for field in found] == parts


def test_files_are_told_from_texts():
    body = form(
        ('content-type: audio/wav\r\nContent-Disposition: form-data; name="file"; filename="a\\"b.wav"', b"\x00"),
        ("Content-Disposition: form-data; name=model", b"whisper"),
        ("Content-Disposition: form-data; name=\"g\"; filename*=UTF-8''x", b"y"),
        text("stream", b"true"),
        text("n", b"false"),
    )
    found = fields_of(body, b"b")
    assert [(field.name, field.is_file) for field in found] == [
        ("file", True), ("model", False), ("g", True), ("stream", False), ("n", False),
    ]  # fmt: skip
    assert values_of(body, found) == {"model": "whisper", "stream": True, "n": False}


def test_a_preamble_and_a_part_without_content():
    body = form(("Content-Disposition: form-data; name=a", b""), front=b"preamble\r\n")
    (field,) = fields_of(body, b"b")
    assert (field.name, field.start == field.end) == ("a", True)
    assert fields_of(b"--b\r\nx: y\r\n\r\n--b--", b"b") == [Field("", 11, 11, is_file=False)]


def test_one_field_changes():
    body = form(text("model", b"a"), text("x", b"a"), text("model", b"c"))
    assert replace_field(body, b"b", "model", b"new") == form(
        text("model", b"new"), text("x", b"a"), text("model", b"new")
    )


def test_a_field_is_added():
    body = form(text("x", b"a"))
    made = replace_field(body, b"b", "model", b"new")
    assert made.endswith(body)
    assert values_of(made, fields_of(made, b"b")) == {"model": "new", "x": "a"}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        ('Multipart/Form-Data; charset=utf-8; BOUNDARY="a b"', b"a b"),
        ("multipart/form-data;boundary=a-b;x=y", b"a-b"),
    ],
)
def test_the_boundary(header, expected):
    assert boundary_of(header) == expected


@pytest.mark.parametrize("header", ["", "application/json", "multipart/form-data", "multipart/mixed; boundary=a"])
def test_no_boundary(header):
    with pytest.raises(MalformedBody):
        boundary_of(header)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--c--",
        b"--b\r\n",
        b"--b\r\na: b\r\n\r\nx",
        b"--b\r\na: b\r\n\r\nx\r\n--b\r\n",
        b"--b" + b"\r\n\r\n\r\n--b" * 1100,
    ],
)
def test_a_form_that_does_not_end(body):
    with pytest.raises(MalformedBody):
        fields_of(body, b"b")
