"""Compilers and linkers: which one is taken, and what is said where there is none."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from qimport import toolchain
from qimport.codegen.target import target_descriptions, target_named
from qimport.errors import TargetError
from qimport.toolchain import find_compiler, find_linker, is_native, platform_of, require_linker

X86, ARM = target_named("x86-64"), target_named("arm64")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The programs of an x86-64 machine with Linux, none at first."""
    programs: set[str] = set()
    monkeypatch.delenv(toolchain.OVERRIDE, raising=False)
    monkeypatch.setattr(toolchain, "_first_compiler", toolchain._first_compiler.__wrapped__)
    monkeypatch.setattr(toolchain, "platform", SimpleNamespace(machine=lambda: "x86_64"))
    monkeypatch.setattr(shutil, "which", lambda name: name if name in programs else None)
    monkeypatch.setattr(
        toolchain.importlib.util, "find_spec", lambda name: "spec" if name in programs else None
    )
    return programs


def test_every_target_has_a_platform() -> None:
    assert all(platform_of(target_named(name)) for name in target_descriptions())


def test_the_nearest_compiler_is_taken(machine: set[str]) -> None:
    assert find_compiler(X86) is None
    machine.add("ziglang")
    zig = find_compiler(X86, "c++")
    assert zig is not None
    assert zig.command == (sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-linux-gnu")
    machine |= {"gcc", "g++", "aarch64-linux-gnu-gcc"}
    for target, language, name in (
        (X86, "c", "gcc"),
        (X86, "c++", "g++"),
        (ARM, "c", "aarch64-linux-gnu-gcc"),
        (ARM, "c++", "zig c++"),
    ):
        found = find_compiler(target, language)
        assert found is not None
        assert found.name == name
    assert is_native(X86)
    assert not is_native(ARM)


def test_a_linker_alone_will_do(machine: set[str]) -> None:
    machine.add("ld.lld")
    found = find_linker(ARM)
    assert found is not None
    assert (found.command, found.linker_option("-z", "defs")) == (("ld.lld",), ("-z", "defs"))
    machine.add("aarch64-linux-gnu-gcc")
    found = find_linker(ARM)
    assert found is not None
    assert found.linker_option("-z", "defs") == ("-Wl,-z,defs",)


def test_the_environment_names_another(machine: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(toolchain.OVERRIDE, "'/opt/my ndk/clang' --sysroot=/opt")
    found = find_compiler(ARM)
    assert found is not None
    assert found.command == ("/opt/my ndk/clang", "--sysroot=/opt")


def test_nothing_found_is_one_sentence(machine: set[str]) -> None:
    with pytest.raises(TargetError, match=r"no compiler or linker for arm64 .*aarch64-linux-gnu-gcc.*cross"):
        require_linker(ARM)


def test_a_tool_that_fails_says_why(tmp_path: Path) -> None:
    program = "import sys; print('note', file=sys.stderr); sys.exit('x.c:1: error: no such thing')"
    with pytest.raises(TargetError, match=r"sh failed: x\.c:1: error: no such thing"):
        toolchain.Tool("sh", (sys.executable, "-c", program)).run()
    with pytest.raises(TargetError, match="gone does not work"):
        toolchain.Tool("gone", (str(tmp_path / "gone"),)).run()
