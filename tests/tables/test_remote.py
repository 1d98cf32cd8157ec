"""Files at a URL are copied to the cache whole, again if their source has changed, and used from there without it."""

import gzip
import http.server
import os
import sys
import threading
from contextlib import contextmanager, suppress

import fsspec
import pytest

from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError, SettingError
from encoderlab.tables import remote

ROWS = "text,label\nrain,weather\ngoal,sport\n"


@contextmanager
def serving(folder, says=None):
    """Serve a folder, and yield its address and the answers so far; `says` answers instead."""
    answers = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)

        def do_GET(self):  # noqa: N802
            return says(self) if says else super().do_GET()

        def log_request(self, code="-", size="-"):
            answers.append(int(code))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", answers
        finally:
            server.shutdown()


def loaded(url, cache):
    return FilesDataset(path=url, validation_fraction=0.0).load(cache)


def copies(cache):
    return sorted(path.name for path in (cache / "downloads").rglob("*") if path.is_file() and path.name[0] != ".")


def test_a_file_of_a_web_server_is_copied_once_and_again_when_it_changes(tmp_path, capsys):
    site, cache = tmp_path / "site", tmp_path / "cache"
    site.mkdir()
    (site / "my rows.csv").write_text(ROWS)
    with serving(site) as (address, answers):
        url = f"{address}/my%20rows.csv?token=secret"
        data = loaded(url, cache)
        assert len(data.by_name["train"]) == 2 and copies(cache) == ["my rows.csv"]
        assert data.origin["files"] == {"train": f"{address}/my%20rows.csv"}, "a report shows no token"
        assert len(loaded(url, cache).by_name["train"]) == 2 and answers == [200, 304]
        (site / "my rows.csv").write_text(ROWS + "snow,weather\n")
        os.utime(site / "my rows.csv", (2e9, 2e9))  # the server's clock counts seconds
        assert len(loaded(url, cache).by_name["train"]) == 3 and answers[-1] == 200
    assert len(loaded(url, cache).by_name["train"]) == 3, "the server is gone"
    assert "copy in the cache is used" in capsys.readouterr().err
    with pytest.raises(DataError, match="cannot be read .*Connection refused"):
        loaded(f"{address}/other.csv", cache)


def test_what_a_web_server_does_not_give_whole_leaves_no_copy(tmp_path, monkeypatch):
    def breaks_off(request):
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(ROWS.encode())

    def never_ends(request):
        request.send_response(200)
        request.end_headers()
        request.wfile.write(ROWS.encode() * 100)

    monkeypatch.setattr(remote, "MOST_BYTES", 2000)
    for says, problem in ((breaks_off, "broke off after"), (never_ends, "more than 2,000 bytes")):
        with serving(tmp_path, says) as (address, _), pytest.raises(DataError, match=problem):
            loaded(f"{address}/a.csv", tmp_path / "cache")
    with serving(tmp_path) as (address, _), pytest.raises(DataError, match="404"):
        loaded(f"{address}/missing.csv", tmp_path / "cache")
    assert copies(tmp_path / "cache") == []


def test_files_that_fsspec_opens_and_patterns_of_them(tmp_path):
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/a.csv", ROWS.encode())
    memory.pipe("/bucket/b.csv", b"text,label\nsnow,weather\n")
    assert len(loaded("memory://bucket/*.csv", tmp_path).by_name["train"]) == 3
    memory.pipe("/bucket/b.csv", b"text,label\nsnow,weather\nwind,weather\n")
    data = loaded(["memory://bucket/a.csv", "memory://bucket/b.csv"], tmp_path)
    assert len(data.by_name["train"]) == 4
    assert data.origin["files"] == {"train": ["memory://bucket/a.csv", "memory://bucket/b.csv"]}
    with pytest.raises(DataError, match=r"memory://bucket/c\.csv does not exist"):
        loaded("memory://bucket/c.csv", tmp_path)
    with pytest.raises(DataError, match="matches no file"):
        loaded("memory://bucket/*.tsv", tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS)
    assert len(loaded((tmp_path / "rows.csv").as_uri(), tmp_path).by_name["train"]) == 2


def test_a_missing_package_or_protocol_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(DataError, match="pip install s3fs"):
        loaded("s3://bucket/a.csv", tmp_path)
    with pytest.raises(SettingError, match="s4://bucket/a.csv has an unknown protocol"):
        loaded("s4://bucket/a.csv", tmp_path)
    with pytest.raises(SettingError, match="is not a URL"):
        loaded("https://[x/a.csv", tmp_path)


def test_commands_read_urls(command, tmp_path, capsys):
    lines = [f"text number {n},{'weather' if n % 2 else 'sport'}\n" for n in range(30)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(lines))
    with serving(tmp_path) as (address, _):
        command("data", f"{address}/rows.csv?v=1,2")
        assert "sport" in capsys.readouterr().out
        command("select", f"{address}/rows.csv", "label_column=kind", "n=2", "output=next.csv")
        assert f"finetune {address}/rows.csv" not in capsys.readouterr().err
        command("embed", f"input={address}/rows.csv", "output=vectors.npy")
    assert (tmp_path / "next.csv").read_text().count("\n") == 3
    assert (tmp_path / "vectors.npy").exists()


@pytest.mark.slow
def test_what_a_run_shows_to_others_holds_no_signature(command, tmp_path):
    lines = [f"text number {n},{'weather' if n % 2 else 'sport'}\n" for n in range(30)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(lines))
    with serving(tmp_path) as (address, _):
        url = f"{address}/rows.csv?sig=secret"
        command("finetune", url, "training.steps=1", "baselines=false", "training.threads=1", "run_dir=run")
    for name in ("report.html", "report.json", "model/README.md", "model/config.json"):
        assert "secret" not in (tmp_path / "run" / name).read_text(encoding="utf-8"), name
    command("eval", "run=run", "split=train")  # without the server, from the copy


def sends(status, body, **headers):
    """Return what answers with this, whatever is asked."""

    def says(request):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return says


def assert_refused(says, site, cache, problem):
    with serving(site, says) as (address, _), pytest.raises(DataError, match=problem):
        loaded(f"{address}/a.csv", cache)


@pytest.mark.parametrize("status", [202, 204, 206, 304])
def test_what_is_not_the_whole_file_is_refused_and_leaves_no_copy(status, tmp_path):
    assert_refused(
        sends(status, b"" if status in (204, 304) else ROWS.encode()),
        tmp_path,
        tmp_path / "cache",
        f"127.0.0.1.*{status}",
    )
    assert copies(tmp_path / "cache") == []


def test_a_packed_answer_is_unpacked_unless_the_file_itself_is_packed(tmp_path, monkeypatch):
    packed = gzip.compress(ROWS.encode())
    for name, coding in (("a.csv", "gzip"), ("a.csv", "x-gzip"), ("a.csv.gz", "gzip"), ("a.csv.gz", "identity")):
        with serving(tmp_path, sends(200, packed, Content_Encoding=coding)) as (address, _):
            assert len(loaded(f"{address}/{name}", tmp_path / f"{name} {coding}").by_name["train"]) == 2
    assert_refused(sends(200, packed[:-9], Content_Encoding="gzip"), tmp_path, tmp_path / "cut", "cannot be read")
    assert_refused(sends(200, b"?", Content_Encoding="br"), tmp_path, tmp_path / "other", "packed as br")
    monkeypatch.setattr(remote, "MOST_BYTES", 10_000)
    assert_refused(
        sends(200, gzip.compress(bytes(10**6)), Content_Encoding="gzip"),
        tmp_path,
        tmp_path / "grown",
        "more than 10,000 bytes",
    )


@pytest.mark.parametrize("in_head", [True, False])
def test_a_server_that_sends_a_few_bytes_at_a_time_is_left(in_head, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(remote, "FIRST_SECONDS", 0.5)
    stopped = threading.Event()

    def drips(request):
        request.wfile.write(b"HTTP/1.0 200 OK\r\n" + (b"" if in_head else b"\r\n"))
        with suppress(OSError):
            while not stopped.wait(0.05):  # which ends with the client, too
                request.wfile.write(b"a")
                request.wfile.flush()

    assert_refused(drips, tmp_path, tmp_path / "cache", "has not answered" if in_head else "bytes a second")
    stopped.set()
    assert copies(tmp_path / "cache") == []


def test_blanks_and_letters_beyond_ascii_in_a_url(tmp_path):
    (tmp_path / "é rows.csv").write_text(ROWS)
    with serving(tmp_path) as (address, answers):
        for path in ("é rows.csv?a=é b", "%C3%A9%20rows.csv"):
            assert len(loaded(f"{address}/{path}", tmp_path / "cache").by_name["train"]) == 2
    assert answers == [200, 200]


def test_a_copy_that_was_damaged_is_read_again_and_never_used(tmp_path, capsys):
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.csv").write_text(ROWS)
    with serving(site) as (address, answers):
        url = f"{address}/a.csv"
        loaded(url, tmp_path)
        [copy] = tmp_path.glob("downloads/*/a.csv")
        copy.write_text(ROWS.replace("rain", "snow"))
        assert loaded(url, tmp_path).by_name["train"][0].text == "rain" and answers == [200, 200]
        assert "damaged" in capsys.readouterr().err
        copy.write_text(ROWS.replace("rain", "snow"))
    with pytest.raises(DataError, match="cannot be read"):
        loaded(url, tmp_path)
