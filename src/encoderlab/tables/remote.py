"""Files at a URL: https://, and whatever fsspec opens (s3://, hf://, gs://, ...), each copied to the cache, whole.

A copy is used again while its source is the same, or cannot be reached, and its own hash is right. Beside it is where
it came from. (fsspec's `filecache` asks no web server whether a file has changed: it knows a version only by the URL.)
"""

from __future__ import annotations

import errno
import glob
import gzip
import json
import re
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from filelock import FileLock

from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.system.files import atomic_write, atomic_write_text, sha256_of
from encoderlab.system.messages import progress_bar, say
from encoderlab.system.records import json_of
from encoderlab.tables.pipes import readable_again

MOST_BYTES = 20 * 2**30  # of a file
_AT_A_TIME = 2**20  # bytes
_SECONDS = 30  # to wait for the next bytes
ANSWER_SECONDS = 60  # to wait for the whole head of an answer
LEAST_RATE = 1000  # bytes a second on average, once the first seconds have passed
FIRST_SECONDS = 60
DOWNLOADS = "downloads"  # of the cache
_SOURCE = ".source.json"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://.")
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # that a copy is written to
_HTTP = ("http", "https")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}


class _UnchangedError(Exception):
    """The source is as it was copied."""


def is_url(name: Any) -> bool:
    """Return whether a name of a file is a URL."""
    return isinstance(name, str) and _URL.match(name) is not None


def _parts(url: str) -> SplitResult:
    """Return the parts of a URL. Raises SettingError if it is none."""
    try:
        return urlsplit(url)
    except ValueError as error:
        raise SettingError(f"{url[:80]} is not a URL: {error}", allowed="such as https://host/file.csv") from None


def without_query(url: str) -> str:
    """Return a URL as reports show it: a query may hold a signature, and what is before an @ a password."""
    parts = _parts(url)
    return parts._replace(query="", fragment="", netloc=parts.netloc.rpartition("@")[2]).geturl()


def source_of(path: Path) -> str:
    """Return the URL that a file was copied from, or its own absolute path."""
    is_copy = path.absolute().parent.parent.name == DOWNLOADS
    noted = _noted(path.parent) if is_copy else {}
    return noted.get("url", str(path.absolute()))


def local_files(name: str, cache_dir: Path) -> list[Path]:
    """Return copies of the files that a URL names, all that match if it is a pattern such as s3://mine/*.csv.

    Raises DataError if one can neither be copied nor is in the cache.
    """
    if _parts(name).scheme in _HTTP or not glob.has_magic(name):
        return [local_file(name, cache_dir)]
    with _explained(name):
        import fsspec

        system, pattern = fsspec.core.url_to_fs(name)
        matches = [system.unstrip_protocol(match) for match in sorted(system.glob(pattern))]
    if not matches:
        raise DataError(f"{name} matches no file", remedy="Check the pattern")
    return [local_file(url, cache_dir) for url in matches]


def local_file(name: str, cache_dir: Path) -> Path:
    """Return a path as it is, and a copy of the file at a URL. Raises DataError if there is none."""
    if not is_url(name):
        return readable_again(Path(name))
    parts = _parts(name)
    return Path(unquote(parts.path)) if parts.scheme == "file" else _copy_of(name, cache_dir)


def file_name_of(url: str) -> str:
    """Return the name of the file at a URL."""
    name = PurePosixPath(unquote(_parts(url).path)).name
    return "data" if not name or name.startswith(".") or "\0" in name else name


def _copy_of(url: str, cache_dir: Path) -> Path:
    """Return the copy of a URL, which is new if its source has changed."""
    folder = cache_dir.absolute() / DOWNLOADS / sha256(url.encode()).hexdigest()[:16]
    copy = folder / file_name_of(url)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            known = _known_version(copy, url)
            try:
                with _explained(url):
                    _copy(url, copy, known)
            except _UnchangedError:
                pass
            except DataError as error:
                if known is None:
                    raise
                say(f"{error.wrong}. The copy in the cache is used: {copy}")
    except OSError as error:
        problem = f"{without_query(url)} cannot be copied to {folder}: {error.strerror or error}"
        raise DataError(problem, remedy="Free some space, or set cache_dir") from error
    return copy


def _known_version(copy: Path, url: str) -> str | None:
    """Return the version of the copy of a URL; None if there is none, or it is not as it was written."""
    noted = _noted(copy.parent)
    if not noted or not copy.is_file():
        return None
    if sha256_of(copy) != noted["sha256"]:
        say(f"{copy} has been damaged since it was written; {without_query(url)} is read again")
        return None
    return noted["version"]


def _noted(folder: Path) -> dict[str, str]:
    """Return the `url`, `version` and `sha256` of the copy in a folder; nothing if they are not known."""
    try:
        noted = json_of((folder / _SOURCE).read_text(encoding="utf-8"))
        return {name: str(noted[name]) for name in ("url", "version", "sha256")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _copy(url: str, copy: Path, known: str | None) -> None:
    """Copy a file whole, and note its version. Raises _UnchangedError if it is `known`, DataError, or any error."""
    opened = _opened_http if _parts(url).scheme in _HTTP else _opened_by_fsspec
    with opened(url, known) as (source, version, size):
        if size is not None and size > MOST_BYTES:
            raise _too_large(url)
        free = shutil.disk_usage(copy.parent).free
        if size is not None and size > free:
            problem = f"{without_query(url)} has {size:,} bytes, and {free:,} are free in {copy.parent}"
            raise DataError(problem, remedy="Free some space, or set cache_dir")
        with atomic_write(copy) as temporary:
            n_bytes = 0
            digest = sha256()
            started = time.monotonic()
            read: Callable[[int], bytes] = getattr(source, "read1", source.read)  # what has come, not all that is asked
            bar = progress_bar(f"copying {copy.name}", "B", size, unit_scale=True, leave=False)
            with temporary.open("wb") as file, bar:
                for block in iter(lambda: read(_AT_A_TIME), b""):
                    n_bytes += len(block)
                    if n_bytes > MOST_BYTES:
                        raise _too_large(url)
                    seconds = time.monotonic() - started
                    if seconds > FIRST_SECONDS and n_bytes < LEAST_RATE * seconds:
                        problem = f"{without_query(url)} sends only {n_bytes / seconds:,.0f} bytes a second"
                        raise DataError(problem, remedy="Try again later, or download it yourself, and name the file")
                    digest.update(block)
                    file.write(block)
                    bar.update(len(block))
            if size is not None and n_bytes != size:
                problem = f"{without_query(url)} broke off after {n_bytes:,} of {size:,} bytes"
                raise DataError(problem, remedy="Try again")
    noted = {"url": without_query(url), "version": version, "sha256": digest.hexdigest()}
    atomic_write_text(copy.parent / _SOURCE, json.dumps(noted))


def _too_large(url: str) -> DataError:
    problem = f"{without_query(url)} has more than {MOST_BYTES:,} bytes"
    return DataError(problem, remedy="Download it yourself, and name the file")


Opened = tuple[
    IO[bytes] | gzip.GzipFile, str, int | None
]  # what is read, its version, and how many bytes it has if that is known


@contextmanager
def _opened_http(url: str, known: str | None) -> Iterator[Opened]:
    """Open a file of a web server, which states a version by its headers ETag or Last-Modified.

    Raises _UnchangedError, DataError for an answer that is not the whole file, or an error of urllib.
    """
    headers = {"User-Agent": "encoderlab", "Accept-Encoding": "identity"}
    if known:
        headers["If-None-Match" if known.startswith(('"', "W/")) else "If-Modified-Since"] = known
    request = urllib.request.Request(_quoted(url), headers=headers)
    shown = without_query(url)
    try:
        response = _answer(request, shown)
    except urllib.error.HTTPError as error:
        if error.code == 304 and known:
            raise _UnchangedError from None
        if error.code == 304:
            problem = f"{shown} answers that it is unchanged (304), and was not asked"
            raise DataError(problem, remedy="Try again, or download it yourself, and name the file") from None
        raise
    with response:
        if response.status != 200:
            problem = f"{shown} answers with status {response.status} instead of the whole file (200)"
            raise DataError(problem, remedy="Download it yourself, and name the file")
        version = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        length = response.headers.get("Content-Length")
        coding = response.headers.get("Content-Encoding", "identity").strip().lower()
        # Of a file that is packed itself, servers state its own packing.
        if coding in ("gzip", "x-gzip") and not file_name_of(url).endswith(".gz"):
            with gzip.GzipFile(fileobj=response) as unpacked:
                yield unpacked, version, None
            return
        if coding not in ("identity", "", "gzip", "x-gzip"):
            problem = f"{shown} is sent packed as {coding[:40]}, which was not asked for"
            raise DataError(problem, remedy="Download it yourself, and name the file")
        yield response, version, None if length is None else int(length)


def _quoted(url: str) -> str:
    """Return a URL as it is sent: blanks and letters beyond ASCII quoted; what is quoted stays as it is."""
    parts = _parts(url)
    user, at, host = parts.netloc.rpartition("@")
    netloc = f"{quote(user, safe='%:')}{at}{host if host.isascii() else host.encode('idna').decode()}"
    path = quote(parts.path, safe="/%:@!$&'()*+,;=~")
    return parts._replace(netloc=netloc, path=path, query=quote(parts.query, safe="/%:@!$&'()*+,;=~?")).geturl()


def _answer(request: urllib.request.Request, shown: str) -> Any:
    """Return what a server answers, once its head has arrived whole: a thread of its own waits for that.

    Raises DataError if that takes too long: each single byte of the head may come in time. Or an error of urllib.
    """
    answers: list[Any] = []

    def ask() -> None:
        try:
            answers.append(urllib.request.urlopen(request, timeout=_SECONDS))
        except Exception as error:
            answers.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    if not answers:
        problem = f"{shown} has not answered within {ANSWER_SECONDS} seconds"
        raise DataError(problem, remedy="Try again later, or download it yourself, and name the file")
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


@contextmanager
def _opened_by_fsspec(url: str, known: str | None) -> Iterator[Opened]:
    """Open a file that fsspec knows to open. Raises _UnchangedError, or any error of the package for its protocol."""
    import fsspec

    system, path = fsspec.core.url_to_fs(url)
    version = str(system.ukey(path))
    if version == known:
        raise _UnchangedError
    with system.open(path, "rb") as file:
        yield file, version, system.size(path)


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Raise any error within this context as a DataError, which says what to do about it."""
    shown = without_query(url)
    scheme = _parts(url).scheme
    try:
        yield
    except (DataError, _UnchangedError):
        raise
    except ImportError as error:
        package = _PACKAGES.get(scheme, "")
        remedy = f"Run pip install {package}" if package else f"Install what fsspec needs for it: {error}"
        raise DataError(f"{shown} cannot be opened without a package for {scheme}://", remedy=remedy) from error
    except FileNotFoundError as error:
        raise DataError(f"{shown} does not exist", remedy="Check the URL") from error
    except OSError as error:
        if error.errno in _OF_THE_DISK:
            raise
        cause = error.reason if type(error) is urllib.error.URLError else error
        reason = one_line(str(cause))[:300]
        raise DataError(f"{shown} cannot be read ({reason})", remedy="Check the URL and the network") from error
    except Exception as error:  # each package raises its own
        if isinstance(error, ValueError) and "Protocol not known" in str(error):
            allowed = "https://, s3://, hf://, and other protocols of fsspec"
            raise SettingError(f"{shown} has an unknown protocol", allowed=allowed) from error
        problem = f"{shown} cannot be read: {one_line(str(error))[:300] or type(error).__name__}"
        raise DataError(problem, remedy="Check the URL, the network, and whether you may read it") from error
