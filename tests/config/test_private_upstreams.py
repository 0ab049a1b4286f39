import pytest

from config.private_upstreams import PrivateUpstreams, parse


@pytest.mark.parametrize(
    ("text", "host", "address", "allowed"),
    [
        ("off", "localhost", "127.0.0.1", False),
        ("", "localhost", "127.0.0.1", False),
        ("ON", "metadata", "169.254.169.254", True),
        ("10.1.0.0/16", "ollama.lan", "10.1.2.3", True),
        ("10.1.0.0/16", "ollama.lan", "10.2.2.3", False),
        ("10.1.2.3/16", "ollama.lan", "10.1.9.9", True),
        ("127.0.0.1", "localhost", "127.0.0.1", True),
        ("127.0.0.1", "localhost", "127.0.0.2", False),
        ("127.0.0.1", "localhost", "::ffff:127.0.0.1", True),
        ("::1", "localhost", "::1", True),
        ("[::1]", "localhost", "::1", True),
        ("fe80::/10", "router", "fe80::1%eth0", True),
        ("ollama.lan", "ollama.lan", "10.9.9.9", True),
        ("Ollama.LAN.", "ollama.lan", "10.9.9.9", True),
        ("ollama.lan", "OLLAMA.lan.", "10.9.9.9", True),
        ("ollama.lan", "evil.ollama.lan", "10.9.9.9", False),
        ("gpu-1, 192.168.0.0/24", "gpu-1", "172.16.0.1", True),
        ("gpu-1, 192.168.0.0/24", "other", "192.168.0.7", True),
    ],
)
def test_allows(text, host, address, allowed):
    assert parse(text).allows(host, address) is allowed


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("10.0.0.0/8,,x", "item 2 is empty"),
        ("10.0.0.0/40", r"item 1 \('10.0.0.0/40'\) is neither"),
        ("1.2.3.400", r"item 1 \('1.2.3.400'\) is neither"),
        ("http://x", r"item 1 \('http://x'\) is neither"),
        ("gpu 1", r"item 1 \('gpu 1'\) is neither"),
        ("on,10.0.0.0/8", r"item 1 \('on'\) is neither"),
    ],
)
def test_what_is_no_list_is_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse(text)


@pytest.mark.parametrize("text", ["off", "on", "gpu-1,ollama.lan,10.1.0.0/16,::1/128"])
def test_the_text_form_reads_back(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


def test_one_more_network():
    assert str(parse("off").with_network("127.0.0.1")) == "127.0.0.1/32"
    assert str(parse("gpu-1").with_network("127.0.0.1")) == "gpu-1,127.0.0.1/32"
    assert parse("127.0.0.1").with_network("127.0.0.1") == parse("127.0.0.1")
    assert parse("on").with_network("127.0.0.1").everything
    assert PrivateUpstreams() == parse("off")
