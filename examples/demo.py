"""`make demo`: digits recognized by compiled networks, compared with the interpreter, built for arm64."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qimport
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle, OracleUnavailable, OracleVersion

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "models"
OUTPUT = ROOT / "build" / "demo"

BUILT = "digits_int8_ptq"
TARGETS = ("arm64", "arm64-dotprod")
CROSS_COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64"

Images = np.ndarray[Any, np.dtype[Any]]


def load_samples(name: str) -> tuple[Images, Images]:
    """Quantized images, one at a time, and the digits they show."""
    with np.load(MODELS / f"{name}_samples.npz") as samples:
        return samples["inputs"][:, np.newaxis], samples["labels"]


@functools.cache
def compiled(name: str, numerics: str) -> qimport.CompiledModel:
    """A model as code for this machine."""
    return qimport.compile(MODELS / f"{name}.tflite", numerics=numerics)


def recognize(name: str) -> None:
    """Print what a compiled network sees in its sample images beside what they show."""
    images, labels = load_samples(name)
    start = time.perf_counter()
    model = compiled(name, "reference")
    seconds = time.perf_counter() - start
    digits = [int(model.run([image])[0].argmax()) for image in images]
    right = sum(digit == label for digit, label in zip(digits, labels, strict=True))
    print(f"{name} (compiled in {seconds:.1f} s)")
    print(f"  predicted {' '.join(map(str, digits))}")
    print(f"  true      {' '.join(map(str, labels))}   {right} of {len(labels)} right")


def compare(names: Sequence[str]) -> bool:
    """Compare all output bytes with the interpreter's in every mode, on the samples and on random images."""
    compared = 0
    with Oracle() as oracle:
        for name in names:
            content = (MODELS / f"{name}.tflite").read_bytes()
            images, _ = load_samples(name)
            limits = np.iinfo(images.dtype)
            noise = np.random.default_rng(0).integers(
                limits.min, limits.max, images.shape, images.dtype, endpoint=True
            )
            for mode in X86_NUMERICS:
                model = compiled(name, mode)
                for image in (*images, *noise):
                    ours = model.run([image])[0]
                    theirs = oracle.run(content, [image], mode).outputs[0]
                    if ours.tobytes() != theirs.tobytes():
                        print(f"DIFFERENT: {name} in mode {mode}:\n  {ours}\n  {theirs}")
                        return False
                    compared += ours.nbytes
        version = oracle.version
    print(
        f"All {compared} output bytes equal those of the TFLite interpreter (ai-edge-litert {version}):\n"
        f"  {len(names)} networks, modes {', '.join(X86_NUMERICS)}, on the samples and as many random images."
    )
    return True


def build(target: str) -> Path:
    """Build object, header and example for a target with the command line, and list them."""
    folder = OUTPUT / target
    command = [sys.executable, "-m", "qimport", "build", str(MODELS / f"{BUILT}.tflite")]
    subprocess.run([*command, "--target", target, "-o", str(folder)], check=True, stdout=subprocess.DEVNULL)
    for file in sorted(path for path in folder.iterdir() if path.suffix in (".o", ".h", ".c")):
        print(f"  {file.relative_to(ROOT)}  {file.stat().st_size} bytes")
    return folder


def emulate(folder: Path) -> bool:
    """Link the example with a cross compiler, run it in an emulator, compare with the compiled model."""
    program = folder / "example"
    sources = [folder / f"{BUILT}_example.c", folder / f"{BUILT}.o"]
    subprocess.run([CROSS_COMPILER, "-std=c99", "-O2", "-static", *sources, "-o", program], check=True)
    model = compiled(BUILT, "reference")
    images, labels = load_samples(BUILT)
    source, result = folder / "in.raw", folder / "out.raw"
    digits = []
    for image in images:
        source.write_bytes(image.tobytes())
        subprocess.run([EMULATOR, "-cpu", "max", program, source, result], check=True)
        found = result.read_bytes()
        expected = model.run([image])[0]
        if found != expected.tobytes():
            print(f"  DIFFERENT under {EMULATOR}")
            return False
        digits.append(int(expected.argmax()))
    print(f"  under {EMULATOR}: {' '.join(map(str, digits))}, the same bytes for all {len(labels)} samples")
    return True


def main() -> int:
    """Run the whole demonstration; 1 if a byte differs."""
    names = sorted(path.stem for path in MODELS.glob("*.tflite"))
    print("Handwritten digits, recognized by compiled networks:\n")
    for name in names:
        recognize(name)
    print()
    try:
        same = compare(names)
    except (OracleUnavailable, OracleVersion) as error:
        print(f"Not compared with the interpreter: {error}")
        same = True
    print(f"\n{BUILT} as C for arm64:")
    missing = [tool for tool in (CROSS_COMPILER, EMULATOR) if shutil.which(tool) is None]
    for target in TARGETS:
        folder = build(target)
        if not missing:
            same = emulate(folder) and same
    if missing:
        print(f"  not run: {' and '.join(missing)} not installed")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
