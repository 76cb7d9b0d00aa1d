"""Downloads against a local server: whole and right, or not there."""

import dataclasses
import hashlib
import http.server
import threading

import pytest

from data_prep.download import PUBLISHED, Published, fetch
from graft_jax.errors import GraftError

FILES = {"a.json": b'{"a": 1}', "b.json": b"b" * 5000}
SET = Published(
    "set",
    "owner/name",
    "c0ffee",
    "data/set",
    {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()},
)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.content` by path; a path in `server.drops` breaks off that many times."""

    def do_GET(self):
        self.server.seen.append(self.path)
        content = self.server.content.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.server.drops.get(self.path, 0):
            self.server.drops[self.path] -= 1
            content = content[: len(content) // 2]
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.content = {f"/owner/name/c0ffee/data/set/{n}": c for n, c in FILES.items()}
    server.drops, server.seen = {}, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def base(server):
    return f"http://127.0.0.1:{server.server_port}/"


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_files_arrive_and_are_not_fetched_again(server, tmp_path):
    folder = tmp_path / "new" / "cache"
    fetch(SET, folder, base(server))
    assert {name: (folder / name).read_bytes() for name in names(folder)} == FILES
    count = len(server.seen)
    fetch(SET, folder, base(server))
    assert len(server.seen) == count


def test_a_wrong_file_in_the_cache_is_fetched_again(server, tmp_path):
    (tmp_path / "a.json").write_bytes(b"half")
    fetch(SET, tmp_path, base(server))
    assert (tmp_path / "a.json").read_bytes() == FILES["a.json"]


def test_a_corrupt_file_is_refused_and_the_right_ones_stay(server, tmp_path):
    path = "/owner/name/c0ffee/data/set/b.json"
    server.content[path] = b"x" * 5000
    with pytest.raises(GraftError, match=r"b\.json: SHA-256 is .* expected"):
        fetch(SET, tmp_path, base(server))
    assert names(tmp_path) == ["a.json"]
    server.content[path] = FILES["b.json"]
    fetch(SET, tmp_path, base(server))
    assert names(tmp_path) == ["a.json", "b.json"]
    assert server.seen.count("/owner/name/c0ffee/data/set/a.json") == 1


def test_an_absent_file_is_named(server, tmp_path):
    del server.content["/owner/name/c0ffee/data/set/a.json"]
    with pytest.raises(GraftError, match=r"a\.json: the server answers 404.*--source"):
        fetch(SET, tmp_path, base(server))
    assert names(tmp_path) == []


def test_a_connection_that_breaks_once_is_tried_again(server, tmp_path):
    server.drops["/owner/name/c0ffee/data/set/b.json"] = 1
    fetch(SET, tmp_path, base(server))
    assert (tmp_path / "b.json").read_bytes() == FILES["b.json"]


def test_a_connection_that_keeps_breaking_is_named(server, tmp_path):
    server.drops["/owner/name/c0ffee/data/set/b.json"] = 99
    with pytest.raises(GraftError, match=r"b\.json: cannot be fetched.*IncompleteRead"):
        fetch(SET, tmp_path, base(server))
    assert names(tmp_path) == ["a.json"]


def test_no_server_and_no_address_are_named(server, tmp_path):
    port = server.server_port
    server.shutdown()
    server.server_close()
    with pytest.raises(GraftError, match="check the network"):
        fetch(SET, tmp_path, f"http://127.0.0.1:{port}")
    with pytest.raises(GraftError, match="--base-url"):
        fetch(SET, tmp_path, "nowhere")


def test_a_file_without_a_known_hash_is_taken_as_it_is(server, tmp_path):
    unknown = dataclasses.replace(SET, files=dict.fromkeys(FILES))
    server.content["/owner/name/c0ffee/data/set/a.json"] = b"anything"
    fetch(unknown, tmp_path, base(server))
    assert (tmp_path / "a.json").read_bytes() == b"anything"


def test_the_table_of_published_files_is_well_formed():
    for published in PUBLISHED.values():
        assert len(published.commit) == 40
        for name, digest in published.files.items():
            assert digest is None or len(bytes.fromhex(digest)) == 32
            assert published.url("https://host/", name).startswith("https://host/")
