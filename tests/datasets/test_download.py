"""The download against a local server that behaves badly on purpose."""

import http.server
import io
import stat
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rnce.datasets import Dataset, DownloadError, load, pusht, write_replay
from rnce.datasets.download import download_pusht, fetch, unpack


class Server:
    """Serves one file. `cuts` are numbers of bytes after which the next connections break."""

    def __init__(self, content: bytes):
        self.content, self.cuts, self.ranges, self.ignore_range = content, [], [], False
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range")
                owner.ranges.append(wanted)
                if self.path != "/pusht.zip":
                    self.send_error(404)
                    return
                start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and not owner.ignore_range else 0
                size = len(owner.content)
                if start >= size:
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{size}")
                    self.end_headers()
                    return
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
                self.send_header("Content-Length", str(size - start))
                self.end_headers()
                stop = start + owner.cuts.pop(0) if owner.cuts else size
                self.wfile.write(owner.content[start:stop])

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/pusht.zip"


@pytest.fixture
def server(archive: bytes) -> Iterator[Server]:
    served = Server(archive)
    thread = threading.Thread(target=served.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield served
    served.http.shutdown()
    served.http.server_close()
    thread.join()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A small stand-in for the official archive, with its own hashes."""
    import hashlib

    rng = np.random.default_rng(0)
    data = Dataset(
        {"state": rng.normal(size=(50, 5)).astype(np.float32), "action": rng.normal(size=(50, 2)).astype(np.float32)},
        np.array([20, 50]),
    )
    hashes = {key: hashlib.sha256(np.asarray(data.arrays[key]).tobytes()).hexdigest() for key in data.arrays}
    monkeypatch.setattr(
        pusht, "SHA256", {**hashes, "episode_ends": hashlib.sha256(data.episode_ends.tobytes()).hexdigest()}
    )
    folder = tmp_path / "source" / "pusht" / pusht.FOLDER
    write_replay(data, folder)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipped:
        for file in sorted(folder.rglob("*")):
            zipped.write(file, file.relative_to(tmp_path / "source"))
    return packed.getvalue()


def test_download_verify_unpack(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = download_pusht(tmp_path / "cache", url=server.url)
    assert found == tmp_path / "cache" / pusht.FOLDER
    assert len(load("pusht", path=tmp_path / "cache")) == 2
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [pusht.FOLDER]
    assert "100%" in capsys.readouterr().err
    download_pusht(tmp_path / "cache", url=server.url)
    assert server.ranges == [None]  # the second time nothing is fetched


def test_a_cut_connection_is_continued(server: Server, tmp_path: Path):
    server.cuts = [1000, 500]
    fetch(server.url, tmp_path / "a.zip", progress=False)
    assert (tmp_path / "a.zip").read_bytes() == server.content
    assert server.ranges == [None, "bytes=1000-", "bytes=1500-"]
    assert not (tmp_path / "a.zip.partial").exists()


def test_a_later_run_continues(server: Server, tmp_path: Path):
    server.cuts = [700, 0, 0]
    with pytest.raises(DownloadError, match="700 bytes are kept, run it again"):
        fetch(server.url, tmp_path / "a.zip", attempts=2, progress=False)
    assert not (tmp_path / "a.zip").exists()
    fetch(server.url, tmp_path / "a.zip", progress=False)
    assert server.ranges[-1] == "bytes=700-"
    assert (tmp_path / "a.zip").read_bytes() == server.content


def test_a_server_that_cannot_continue_starts_again(server: Server, tmp_path: Path):
    server.cuts, server.ignore_range = [1000], True
    fetch(server.url, tmp_path / "a.zip", progress=False)
    assert (tmp_path / "a.zip").read_bytes() == server.content


@pytest.mark.parametrize("extra", [0, 10])
def test_a_part_that_is_already_whole_or_too_long(server: Server, tmp_path: Path, extra: int):
    (tmp_path / "a.zip.partial").write_bytes(server.content + b"x" * extra)
    fetch(server.url, tmp_path / "a.zip", progress=False)
    assert (tmp_path / "a.zip").read_bytes() == server.content


def test_wrong_hash(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(pusht.SHA256, "action", "0" * 64)
    with pytest.raises(DownloadError, match=r"array 'action' has sha256 .* expected 0000"):
        download_pusht(tmp_path / "cache", url=server.url, progress=False)
    assert list((tmp_path / "cache").iterdir()) == []  # neither data nor archive are kept


def test_damaged_archive(server: Server, tmp_path: Path):
    server.content = server.content[:-30]
    with pytest.raises(DownloadError, match="not a whole zip file"):
        download_pusht(tmp_path / "cache", url=server.url, progress=False)
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_server_and_no_file(server: Server, tmp_path: Path):
    with pytest.raises(DownloadError, match="the server answered 404"):
        fetch(server.url.replace("pusht.zip", "other.zip"), tmp_path / "a.zip", progress=False)
    with pytest.raises(DownloadError, match="refused"):
        fetch("http://127.0.0.1:1/a.zip", tmp_path / "a.zip", attempts=1, progress=False)
    with pytest.raises(DownloadError, match="must start with http"):
        fetch("file:///etc/passwd", tmp_path / "a.zip")


def zipped(name: str, content: bytes = b"x", mode: int = 0) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        opened.writestr(info, content)
    return packed.getvalue()


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/out", "..\\out", "C:\\out", "\\out"])
def test_names_that_climb_out_are_refused(tmp_path: Path, name: str):
    (tmp_path / "a.zip").write_bytes(zipped(name))
    (tmp_path / "inside").mkdir()
    with pytest.raises(DownloadError, match="leads out of the folder"):
        unpack(tmp_path / "a.zip", tmp_path / "inside")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.zip", "inside"]
    assert list((tmp_path / "inside").iterdir()) == []


def test_links_and_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a.zip").write_bytes(zipped("link", b"/etc/passwd", stat.S_IFLNK | 0o777))
    with pytest.raises(DownloadError, match="the link 'link'"):
        unpack(tmp_path / "a.zip", tmp_path / "inside")
    monkeypatch.setattr("rnce.datasets.download.UNPACKED_LIMIT", 10)
    (tmp_path / "b.zip").write_bytes(zipped("big", b"x" * 11))
    with pytest.raises(DownloadError, match="more than 10 bytes"):
        unpack(tmp_path / "b.zip", tmp_path / "inside")


def test_an_archive_that_climbs_out_is_not_kept(server: Server, tmp_path: Path):
    server.content = zipped("../../escaped")
    with pytest.raises(DownloadError, match=r"leads out of the folder.*the archive was removed"):
        download_pusht(tmp_path / "cache", url=server.url, progress=False)
    assert not list(tmp_path.rglob("escaped"))
    assert list((tmp_path / "cache").iterdir()) == []
