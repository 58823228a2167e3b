"""Fetching an archive: with a progress bar, going on where a cut connection stopped, unpacked without trusting it."""

import http.client
import re
import shutil
import stat
import urllib.error
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath, PureWindowsPath

from tqdm import tqdm

from rnce.datasets.errors import DatasetError, DownloadError
from rnce.datasets.places import cache_folder
from rnce.datasets.pusht import FOLDER, verify
from rnce.datasets.replay import read_replay, replaced_folder

__all__ = ["PUSHT_URL", "download_pusht", "fetch", "unpack"]

PUSHT_URL = "https://diffusion-policy.cs.columbia.edu/data/training/pusht.zip"
TIMEOUT = 30  # seconds without a byte
UNPACKED_LIMIT = 8 * 2**30  # far above any archive fetched here; stops one that expands without end


def download_pusht(folder: Path | None = None, *, url: str = PUSHT_URL, progress: bool = True) -> Path:
    """Fetch, verify and unpack the Push-T demonstrations; returns where they are.

    What is there already is verified and kept. A part that was fetched before is continued.

    Args:
        folder: Where to put them; the cache folder if None.
        url: Where the archive is.
        progress: Show a progress bar.
    """
    folder = cache_folder() if folder is None else Path(folder)
    target = folder / FOLDER
    if target.is_dir():
        verify(read_replay(target))
        return target
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "pusht.zip"
    fetch(url, archive, progress=progress)
    try:
        with replaced_folder(folder / f".{FOLDER}.unpacked", overwrite=True) as unpacked:
            unpack(archive, unpacked)
            found = next(iter(sorted(unpacked.rglob(FOLDER))), None)
            if found is None:
                raise DownloadError(f"{url}: the archive holds no {FOLDER}")
            verify(read_replay(found))
            found.rename(target)
    except DatasetError as error:
        # Going on from bytes that are wrong would never end well.
        archive.unlink()
        raise DownloadError(f"{url}: {error}; the archive was removed, try again") from error
    finally:
        shutil.rmtree(folder / f".{FOLDER}.unpacked", ignore_errors=True)
    archive.unlink()
    return target


def fetch(url: str, target: Path, *, attempts: int = 5, progress: bool = True) -> None:
    """Fetch a file under a temporary name and rename it when it is complete.

    A connection that breaks is opened again where it stopped, as is one from an earlier run.

    Args:
        url: An http or https address.
        target: The file to make; kept as it is when it exists.
        attempts: How many connections in a row may break without a single new byte.
        progress: Show a progress bar.
    """
    if target.exists():
        return
    if not url.startswith(("http://", "https://")):
        raise DownloadError(f"url must start with http:// or https://, got {url!r}")
    partial = target.with_name(f"{target.name}.partial")
    failures = 0
    while True:
        before = partial.stat().st_size if partial.exists() else 0
        try:
            _continue(url, partial, before, target.name if progress else None)
            partial.rename(target)
            return
        except urllib.error.HTTPError as error:
            raise DownloadError(f"{url}: the server answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            after = partial.stat().st_size if partial.exists() else 0
            failures = 0 if after > before else failures + 1
            if failures >= attempts:
                raise DownloadError(
                    f"{url}: {error or type(error).__name__}; {after} bytes are kept, run it again to continue"
                ) from error


def _continue(url: str, partial: Path, have: int, label: str | None) -> None:
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        # The range starts at the end: all is there, or this is a part of some other file.
        if error.code == 416 and have:
            size = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
            if size and int(size[1]) == have:
                return
            partial.unlink()
            raise ConnectionError("the part that was fetched before is not of this file") from error
        raise
    with response:
        start = re.match(rf"bytes {have}-", response.headers.get("Content-Range", ""))
        if response.status != 206 or not start:
            have = 0  # the server sends all of it
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        bar = tqdm(total=total, initial=have, desc=label, unit="B", unit_scale=True, disable=label is None)
        with partial.open("ab" if have else "wb") as file, bar:
            while block := response.read(2**16):
                file.write(block)
                bar.update(len(block))
    if total is not None and partial.stat().st_size != total:
        raise ConnectionError(f"the connection was cut after {partial.stat().st_size} of {total} bytes")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip file into a folder, refusing names that lead out of it, links and damaged members."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            for member in members:
                _check_member(archive, member)
            if sum(member.file_size for member in members) > UNPACKED_LIMIT:
                raise DownloadError(f"{archive.name} would unpack to more than {UNPACKED_LIMIT} bytes")
            for member in members:
                opened.extract(member, folder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise DownloadError(f"{archive.name} is not a whole zip file ({error})") from error


def _check_member(archive: Path, member: zipfile.ZipInfo) -> None:
    name = member.filename
    windows = PureWindowsPath(name)
    climbs = ".." in PurePosixPath(name).parts or ".." in windows.parts
    if climbs or name.startswith("/") or windows.drive or windows.root:
        raise DownloadError(f"{archive.name} holds {name!r}, which leads out of the folder it is unpacked to")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise DownloadError(f"{archive.name} holds the link {name!r}")
