"""Parts of tests.fake_upstream: what it says (content, *_wire), how it says it (delivery), and the server."""
