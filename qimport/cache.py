"""Compiled models kept on disk: compiling the same model in the same way again only reads a file.

An entry is named after everything that shapes the result: the content of the model, every option of the
compilation, and the versions of LLVM and of qimport down to its source text. It is written beside its place
and renamed, so that other processes see all of it or nothing, and its members carry checksums.

Entries are native code. They are read only from a folder and from files that belong to this user and that
nobody else may write.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import re
import stat
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from qimport import artefact as files
from qimport.artefact import Artefact
from qimport.errors import ArgumentError, ModelError

SWITCH = "QIMPORT_CACHE"
"""Environment variable: 0 keeps nothing and looks for nothing."""

FOLDER = "QIMPORT_CACHE_DIR"
"""Environment variable: the folder, instead of one in the user's cache folder."""

LIMIT = "QIMPORT_CACHE_LIMIT"
"""Environment variable: bytes that all entries may take, as ``500M`` or ``2G``; what was used last stays."""

DEFAULT_LIMIT = 2 * 10**9
SUFFIX = ".qimport"

_ENTRY_NAME = re.compile(r"[0-9a-f]{64}" + re.escape(SUFFIX))
_SCRATCH = ".qimport-entry-"
"""Beginning of unfinished files. Whatever has other names in the folder is not ours and stays."""

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_ABANDONED_SECONDS = 3600
"""Age at which an unfinished file is of a process that ended while it wrote."""

_WARNED: set[Path] = set()
"""Folders that a warning was about: one in a process is enough."""


class CacheWarning(UserWarning):
    """The cache cannot be used; compiling goes on without it."""


@dataclass(frozen=True)
class Entry:
    """A file of the cache; times are seconds since 1970."""

    path: Path
    nbytes: int
    created: float
    used: float

    def describe(self) -> dict[str, Any]:
        """Name, numerics and target of the model, with nothing else read; empty for a damaged file."""
        try:
            with open(self.path, "rb", opener=_open_own) as file:
                found = files.read_description(file, self.path.name)
                about = {key: found[key] for key in ("name", "numerics", "target", "version")}
                texts = (about["name"], about["numerics"], about["target"]["name"])
        except (OSError, ModelError, KeyError, TypeError):
            return {}
        return about if all(isinstance(text, str) for text in texts) else {}


@dataclass(frozen=True)
class Cache:
    """A folder of compiled models that together take at most ``limit`` bytes. It need not exist."""

    folder: Path
    limit: int = DEFAULT_LIMIT

    def find(self, key: str) -> Artefact | None:
        """The entry of this name. A damaged one is removed; what others could have written is not read."""
        path = self._path(key)
        try:
            self._require_trust()
            with open(path, "rb", opener=_open_own) as file:
                artefact = files.read(file, str(path))
                created = os.fstat(file.fileno()).st_mtime_ns
            with suppress(OSError):  # what can only be read serves as well
                os.utime(path, ns=(time.time_ns(), created))
        except FileNotFoundError:
            return None
        except ModelError:
            with suppress(OSError):
                path.unlink()
            return None
        except OSError as error:
            _warn_once(self.folder, error)
            return None
        return artefact

    def store(self, key: str, artefact: Artefact) -> None:
        """Keep ``artefact``, in the place of an entry of that name, and remove what is beyond the limit."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._require_trust()
            handle, scratch = tempfile.mkstemp(prefix=_SCRATCH, dir=self.folder)
            try:
                with open(handle, "wb") as file:
                    artefact.write(file)
                os.replace(scratch, self._path(key))
            except BaseException:
                with suppress(OSError):
                    os.unlink(scratch)
                raise
            self._shrink()
        except OSError as error:
            _warn_once(self.folder, error)

    def entries(self) -> list[Entry]:
        """All entries, the last used first.

        Raises:
            ArgumentError: the folder cannot be read.
        """
        try:
            return self._list()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ArgumentError(f"cannot read the cache {self.folder}: {_reason(error)}") from error

    def clear(self, older_than: float = 0.0) -> list[Entry]:
        """Remove entries that were not used for so many seconds, and return them.

        Raises:
            ArgumentError: the system refuses.
        """
        latest = time.time() - older_than
        removed = [entry for entry in self.entries() if entry.used <= latest or older_than <= 0]
        try:
            for entry in removed:
                entry.path.unlink(missing_ok=True)
        except OSError as error:
            raise ArgumentError(f"cannot clear the cache {self.folder}: {_reason(error)}") from error
        return removed

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _require_trust(self) -> None:
        """Raise OSError unless the folder exists and only this user can write to it."""
        _require_own(os.stat(self.folder))

    def _list(self) -> list[Entry]:
        """:meth:`entries`, where the system's errors pass."""
        found = [_entry(path) for path in self.folder.iterdir() if _ENTRY_NAME.fullmatch(path.name)]
        return sorted((entry for entry in found if entry is not None), key=lambda entry: -entry.used)

    def _shrink(self) -> None:
        """Remove what was not used for longest until the limit holds, and what dead processes left."""
        total = 0
        for entry in self._list():
            total += entry.nbytes
            if total > self.limit:
                entry.path.unlink(missing_ok=True)
        for path in self.folder.glob(f"{_SCRATCH}*"):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    path.unlink()


def user_cache() -> Cache | None:
    """The cache that the environment asks for; None where it is switched off, or the user has no folder.

    Raises:
        ArgumentError: an environment variable has no meaning.
    """
    folder = cache_folder()
    return Cache(folder, cache_limit()) if switched_on() and folder is not None else None


def switched_on() -> bool:
    """What :data:`SWITCH` says; raises ArgumentError where that has no meaning."""
    switch = os.environ.get(SWITCH) or "1"
    if switch not in ("0", "1"):
        raise ArgumentError(f"{SWITCH} is {switch!r}; expected 0 or 1")
    return switch == "1"


def cache_folder() -> Path | None:
    """``$QIMPORT_CACHE_DIR``, or ``qimport`` in the user's cache folder as the XDG specification has it."""
    chosen = os.environ.get(FOLDER)
    if chosen:
        return Path(chosen)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(os.path.expanduser("~")) / ".cache"
    return base / "qimport" if base.is_absolute() else None


def cache_limit() -> int:
    """What :data:`LIMIT` says in bytes; raises ArgumentError where that has no meaning."""
    text = os.environ.get(LIMIT)
    if not text:
        return DEFAULT_LIMIT
    match = re.fullmatch(r"(\d{1,18})([KMG]?)", text, re.ASCII)
    if match is None:
        raise ArgumentError(f"{LIMIT} is {text!r}; expected a number of bytes as 500M or 2G")
    return int(match[1]) * _UNITS[match[2]]


def fingerprint(*parts: Any) -> str:
    """A name for ``parts`` that every process and every Python gives, together with all of our own source.

    Parts are text, numbers, None, records, and mappings, sets and sequences of these.
    """
    text = json.dumps([_canonical(parts), _own_source()])
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    """``value`` as JSON where equal values, and only they, are equal text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _canonical(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return sorted([repr(key), _canonical(item)] for key, item in value.items())
    if isinstance(value, AbstractSet):
        return sorted(map(repr, value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_canonical(item) for item in value]
    return repr(value)


@functools.cache
def _own_source() -> str:
    """A digest of this package: two states of a development tree may carry the same version."""
    digest = hashlib.sha256()
    folder = os.path.dirname(__file__)
    paths = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
    for path in sorted(path for path in paths if path.endswith(".py")):
        with open(path, "rb", buffering=0) as file:
            content = file.readall()
        digest.update(f"{path[len(folder) :]}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def _open_own(path: str, flags: int) -> int:
    """Open a file of this user; links are not followed."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe without a writer would block
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "an entry is no regular file")
        _require_own(status)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_own(status: os.stat_result) -> None:
    """Raise OSError where another user owns something or may write to it."""
    if status.st_uid != os.geteuid():
        raise PermissionError("it belongs to another user, and what it holds would be executed")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("other users may write to it, and what it holds would be executed")


def _entry(path: Path) -> Entry | None:
    """What the file system knows of an entry; None if it has just gone, or is none of ours."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Entry(path, status.st_size, status.st_mtime, status.st_atime)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _warn_once(folder: Path, error: OSError) -> None:
    if folder not in _WARNED:
        _WARNED.add(folder)
        warnings.warn(f"the cache {folder} cannot be used: {_reason(error)}", CacheWarning, stacklevel=4)


__all__ = [
    "Cache",
    "CacheWarning",
    "Entry",
    "cache_folder",
    "cache_limit",
    "fingerprint",
    "switched_on",
    "user_cache",
]
