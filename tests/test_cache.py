"""The cache of compiled models: what is found again, and all that can be wrong with a file or folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import command_line as cli
import pytest
from test_compile import edited

import qimport
from qimport import cache as caching
from qimport.artefact import Artefact
from qimport.cache import Cache, CacheWarning, cache_folder, cache_limit, fingerprint, user_cache
from qimport.compiler import Compilation, Options, Progress, trace
from qimport.errors import ArgumentError, ModelError
from qimport.frontend.custom import CUSTOM_IMPORTERS
from qimport.model import CompiledModel
from qimport.oracle import random_inputs

DIGITS = Path(cli.DIGITS)
NOT_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """The user's cache in a folder of its own, which does not exist yet."""
    monkeypatch.setenv("QIMPORT_CACHE", "1")
    monkeypatch.setenv("QIMPORT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(caching, "_WARNED", set())
    found = user_cache()
    assert found is not None
    return found


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Compilation]:
    """Every compilation that ran, in order."""
    ran: list[Compilation] = []
    original = Compilation._compile

    def compile_and_note(compilation: Compilation, progress: Progress | None) -> Artefact:
        ran.append(compilation)
        return original(compilation, progress)

    monkeypatch.setattr(Compilation, "_compile", compile_and_note)
    return ran


def result(model: CompiledModel) -> list[bytes]:
    return [array.tobytes() for array in model.run(random_inputs(model.inputs, 1))]


def test_the_second_compilation_reads_a_file(cache: Cache, compiled: list[Compilation]) -> None:
    first, second = qimport.compile(DIGITS), qimport.compile(DIGITS)
    assert len(compiled) == 1
    assert first._artefact.to_bytes() == second._artefact.to_bytes()
    assert result(first) == result(second)
    assert second.stage("qnn") == trace(DIGITS).text("qnn")  # stages are computed as ever
    (entry,) = cache.entries()
    assert entry.path.stat().st_mode & 0o777 == 0o600
    assert cache.folder.stat().st_mode & 0o777 == 0o700


def test_the_interpreter_uses_it(cache: Cache, compiled: list[Compilation]) -> None:
    for keep in (False, False, True, True):
        interpreter = qimport.Interpreter(str(DIGITS), experimental_preserve_all_tensors=keep)
        interpreter.allocate_tensors()
        interpreter.invoke()
    assert [item.kept is not None for item in compiled] == [False, True]


def test_it_can_be_switched_off(
    cache: Cache, compiled: list[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    qimport.compile(DIGITS, cache=False)
    qimport.Interpreter(str(DIGITS), cache=False).allocate_tensors()
    monkeypatch.setenv("QIMPORT_CACHE", "0")
    qimport.compile(DIGITS)
    assert len(compiled) == 3
    assert not cache.folder.exists()


def test_models_that_cannot_be_compiled_fail_again(cache: Cache) -> None:
    content = DIGITS.read_bytes()[:200]
    for _ in range(2):
        with pytest.raises(ModelError):
            qimport.compile(content)
    assert not cache.entries()


def test_operators_of_others_are_not_cached(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CUSTOM_IMPORTERS, "TheirOwn", lambda context: None)
    qimport.compile(DIGITS)
    assert not cache.entries()


def test_everything_that_shapes_the_code_is_in_the_key() -> None:
    base = trace(DIGITS, "x86-64-v3")
    others = {
        "target": replace(base.options.target, features=base.options.target.features - {"avx2"}),
        "numerics": "xnnpack",
        "batch": 2,
        "shapes": {"image": (2, 8, 8, 1)},
        "subgraph": 1,
        "signature": "serving_default",
        "threads": 2,
    }
    keys = [base.key]
    for field in fields(Options):
        options = replace(base.options, **{field.name: others[field.name]})
        keys.append(Compilation(base.content, base.source, options).key)
    keys.append(Compilation(bytes(base.content) + b"\0", base.source, base.options).key)
    keys.append(Compilation(base.content, "other.tflite", base.options).key)  # the model's name
    keys.append(Compilation(base.content, base.source, base.options, (3,)).key)
    assert len(set(keys)) == len(keys)
    assert base.key == trace(DIGITS, "x86-64-v3").key


def test_fingerprints_do_not_depend_on_the_process() -> None:
    """Sets of text have another order in every process."""
    call = "fingerprint({'a', 'b', 'c'}, {2: 1, 1: (2,)}, 1.5, None)"
    command = [sys.executable, "-c", f"from qimport.cache import fingerprint; print({call})"]
    found = {
        subprocess.check_output(command, env={**os.environ, "PYTHONHASHSEED": seed}, cwd=cli.ROOT)
        for seed in ("1", "2")
    }
    assert found == {fingerprint({"c", "b", "a"}, {1: [2], 2: 1}, 1.5, None).encode() + b"\n"}


def test_a_change_of_our_source_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "qimport"
    package.mkdir()
    monkeypatch.setattr(caching, "__file__", str(package / "cache.py"))
    found = []
    for text in ("a = 1", "a = 2"):
        (package / "module.py").write_text(text)
        caching._own_source.cache_clear()
        found.append(caching._own_source())
    caching._own_source.cache_clear()
    assert found[0] != found[1]


@pytest.mark.parametrize("damage", ["byte", "cut", "empty", "text"])
def test_damaged_entries_are_replaced(cache: Cache, compiled: list[Compilation], damage: str) -> None:
    wanted = result(qimport.compile(DIGITS))
    (entry,) = cache.entries()
    content = bytearray(entry.path.read_bytes())
    if damage == "byte":
        content[len(content) // 2] ^= 1
    wrong = {"byte": content, "cut": content[:-100], "empty": b"", "text": b"PK\3\4 not at all"}[damage]
    entry.path.write_bytes(wrong)
    assert result(qimport.compile(DIGITS)) == wanted
    assert len(compiled) == 2
    qimport.compile(DIGITS)
    assert len(compiled) == 2


@pytest.mark.parametrize("what", ["folder", "entry"])
def test_what_others_may_write_is_not_executed(cache: Cache, compiled: list[Compilation], what: str) -> None:
    qimport.compile(DIGITS)
    (entry,) = cache.entries()
    (cache.folder if what == "folder" else entry.path).chmod(0o777)
    with pytest.warns(CacheWarning, match="other users may write"):
        qimport.compile(DIGITS)
    qimport.compile(DIGITS)  # the second warning would be an error here
    assert len(compiled) == (3 if what == "folder" else 2)


@pytest.mark.parametrize("what", ["folder", "entry"])
def test_what_belongs_to_others_is_not_executed(
    cache: Cache, compiled: list[Compilation], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    qimport.compile(DIGITS)
    (entry,) = cache.entries()
    if os.geteuid() == 0:
        os.chown(cache.folder if what == "folder" else entry.path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        qimport.compile(DIGITS)
    assert len(compiled) == 2


def test_links_are_not_followed(cache: Cache, compiled: list[Compilation], tmp_path: Path) -> None:
    qimport.compile(DIGITS)
    (entry,) = cache.entries()
    entry.path.rename(tmp_path / "elsewhere")
    entry.path.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(CacheWarning):
        qimport.compile(DIGITS)
    assert len(compiled) == 2
    assert not entry.path.is_symlink()  # replaced


def test_files_of_others_stay(cache: Cache) -> None:
    qimport.compile(DIGITS)
    names = (".profile", "mine.qimport", f"{'0' * 63}x.qimport")
    for name in names:
        (cache.folder / name).touch()
        os.utime(cache.folder / name, (0, 0))
    replace(cache, limit=0).store("0" * 64, qimport.compile(DIGITS)._artefact)
    cache.clear()
    assert sorted(path.name for path in cache.folder.iterdir()) == sorted(names)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_no_entry(
    cache: Cache, compiled: list[Compilation], make: Callable[[Path], None]
) -> None:
    qimport.compile(DIGITS)
    (entry,) = cache.entries()
    entry.path.unlink()
    make(entry.path)
    with pytest.warns(CacheWarning):
        qimport.compile(DIGITS)
    assert len(compiled) == 2
    assert len(cache.entries()) == (1 if make is os.mkfifo else 0)  # a pipe is replaced, a folder is not


def test_a_folder_that_cannot_be_made_is_one_warning(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.warns(CacheWarning, match="cannot be used: not a directory") as seen:
        models = [qimport.compile(DIGITS), qimport.compile(DIGITS)]
    assert len(seen) == 1
    assert result(models[0]) == result(models[1])


@NOT_ROOT
def test_a_read_only_folder_is_read(cache: Cache, compiled: list[Compilation]) -> None:
    qimport.compile(DIGITS)
    cache.folder.chmod(0o500)
    qimport.compile(DIGITS)
    assert len(compiled) == 1
    with pytest.warns(CacheWarning, match="permission denied"):
        qimport.compile(DIGITS, "x86-64")


def test_a_folder_that_cannot_be_listed_is_one_warning(
    cache: Cache, compiled: list[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.warns(CacheWarning, match="permission denied") as seen:
        models = [qimport.compile(DIGITS), qimport.compile(DIGITS, "x86-64")]
    assert (len(seen), len(compiled)) == (1, 2)
    assert result(models[0]) == result(models[1])
    with pytest.raises(ArgumentError, match="cannot read the cache"):
        cache.entries()


def test_one_entry_without_end_does_not_hide_the_others(cache: Cache) -> None:
    qimport.compile(DIGITS)
    circle = cache.folder / f"{'b' * 64}.qimport"
    circle.symlink_to(circle)
    (entry,) = cache.entries()
    assert cache.clear() == [entry]
    qimport.compile(DIGITS)
    assert len(cache.entries()) == 1


def test_a_directory_before_the_file_is_damage(cache: Cache, compiled: list[Compilation]) -> None:
    qimport.compile(DIGITS)
    (entry,) = cache.entries()
    content = entry.path.read_bytes()
    head, found, tail = content.rpartition(b"PK\5\6")
    assert found and len(tail) == 18
    entry.path.write_bytes(head + found + tail[:12] + b"\xf0\xff\xff\x7f" + tail[16:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        qimport.compile(DIGITS)
    assert len(compiled) == 2


@pytest.mark.parametrize(
    "changes", [{"target": "x"}, {"target": None}, {"name": None}, {"numerics": [1]}, {"target": {"name": 5}}]
)
def test_the_command_calls_strange_descriptions_damaged(cache: Cache, changes: dict[str, object]) -> None:
    qimport.compile(DIGITS)
    (entry,) = cache.entries()
    entry.path.write_bytes(edited(entry.path.read_bytes(), **changes))
    assert "(damaged)" in cli.succeed("cache")
    (model,) = json.loads(cli.succeed("cache", "--json"))["models"]
    assert "target" not in model


def test_a_full_disk_leaves_nothing(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qimport.artefact.Artefact.write", full)
    with pytest.warns(CacheWarning, match="no space left"):
        qimport.compile(DIGITS)
    assert list(cache.folder.iterdir()) == []


def test_what_was_used_last_stays(cache: Cache) -> None:
    artefact = trace(DIGITS).artefact()
    size = len(artefact.to_bytes())
    first, second, third, fourth = (digit * 64 for digit in "abcd")
    small = Cache(cache.folder, 2 * size + size // 2)
    for age, key in enumerate((first, second)):
        small.store(key, artefact)
        os.utime(cache.folder / f"{key}.qimport", (1000 + age, 1000))
    assert small.find(first) is not None  # now the second was not used for longest
    unfinished = cache.folder / ".qimport-entry-left"
    unfinished.touch()
    os.utime(unfinished, (1000, 1000))
    small.store(third, artefact)
    assert sorted(path.name for path in cache.folder.iterdir()) == [f"{k}.qimport" for k in (first, third)]
    assert Cache(cache.folder, size - 1).store(fourth, artefact) is None
    assert not cache.entries()


def test_two_processes_may_write_the_same_entry(cache: Cache) -> None:
    program = (
        "import sys, qimport.cache as c, qimport.compiler as k;"
        "a = k.trace(sys.argv[1]).artefact(); b = a.to_bytes(); store = c.user_cache();"
        "wrong = 0\n"
        "for _ in range(30):\n"
        "    store.store('key', a); wrong += store.find('key').to_bytes() != b\n"
        "sys.exit(wrong)"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(DIGITS)]
    running = [subprocess.Popen(command, cwd=cli.ROOT) for _ in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    assert [path.name for path in cache.folder.iterdir()] == ["key.qimport"]


def test_the_folder_and_limit_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QIMPORT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/base")
    assert cache_folder() == Path("/base/qimport")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification wants it ignored
    monkeypatch.setenv("HOME", "/home/user")
    assert cache_folder() == Path("/home/user/.cache/qimport")
    for text, limit in (("5", 5), ("3K", 3000), ("7M", 7 * 10**6), ("2G", 2 * 10**9), ("", 2 * 10**9)):
        monkeypatch.setenv("QIMPORT_CACHE_LIMIT", text)
        assert cache_limit() == limit


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("QIMPORT_CACHE", "no", "expected 0 or 1"),
        ("QIMPORT_CACHE_LIMIT", "2 GB", "expected a number of bytes"),
        ("QIMPORT_CACHE_LIMIT", "9" * 5000, "expected a number of bytes"),
    ],
)
def test_wrong_variables_are_told(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ArgumentError, match=words):
        qimport.compile(DIGITS)


# The command


def test_the_command_shows_and_clears(cache: Cache) -> None:
    assert "0 models, 0 bytes" in cli.succeed("cache")
    cli.succeed("run", "--random", 1, DIGITS)
    cli.succeed("run", "--random", 1, "--numerics", "xnnpack", "--target", "x86-64-v3", DIGITS)
    head, *lines, summary = cli.succeed("cache").splitlines()
    assert head.split() == ["model", "target", "numerics", "bytes", "created", "last", "used"]
    assert sorted(line.split()[:3] for line in lines) == [
        ["digits_int8_ptq", "host", "reference"],
        ["digits_int8_ptq", "x86-64-v3", "xnnpack"],
    ]
    assert summary.startswith(f"{cache.folder}: 2 models")
    report = json.loads(cli.succeed("cache", "--json"))
    assert report["bytes"] == sum(model["bytes"] for model in report["models"])
    assert {model["numerics"] for model in report["models"]} == {"reference", "xnnpack"}
    assert "removed 0 models" in cli.succeed("cache", "clear", "--older-than", "0.5")
    assert json.loads(cli.succeed("cache", "clear", "--json"))["removed"] == 2
    assert not cache.entries()


def test_the_command_shows_damaged_entries(cache: Cache) -> None:
    cache.folder.mkdir()
    (cache.folder / f"{'0' * 64}.qimport").write_bytes(b"nothing")
    assert "(damaged)" in cli.succeed("cache")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clear", "--older-than", "long"], "not a valid float"),
        (["clear", "--older-than", "-1"], "not in the range"),
        (["clear", "--older-than", "nan"], "no finite number"),
        (["clean"], "Did you mean 'clear'"),
    ],
)
def test_wrong_arguments_of_the_command(arguments: list[str], words: str) -> None:
    assert words in cli.fail(4, "cache", *arguments)


def test_a_folder_that_is_none(cache: Cache) -> None:
    cache.folder.write_text("a file")
    for arguments in (["cache"], ["cache", "clear"]):
        assert "cannot read the cache" in cli.fail(4, *arguments)
    done = cli.process("run", "--random", "1", str(DIGITS))
    assert done.returncode == 0
    assert done.stderr == f"qimport: warning: the cache {cache.folder} cannot be used: not a directory\n"
