"""Measure the models of this folder in the TFLite interpreter: `python models/measure.py [NAME ...]`.

Prints one line of the README's table for each model and fails if one is less accurate than MIN_ACCURACY
in any of the three kernel sets. Needs no TensorFlow.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path

import digit_data
import numpy as np
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType

FOLDER = Path(__file__).resolve().parent
MIN_ACCURACY = 0.95
SAMPLES = 16
UPSCALE = {"mobile_int8": 3}
KERNEL_SETS = {
    "reference": OpResolverType.BUILTIN_REF,
    "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "xnnpack": OpResolverType.AUTO,
}


def quantize_images(images: np.ndarray, details: dict) -> np.ndarray:
    """Round float images to the type, scale and zero point of an interpreter's input."""
    scale, zero_point = details["quantization"]
    limits = np.iinfo(details["dtype"])
    codes = np.round(images / scale) + zero_point
    return np.clip(codes, limits.min, limits.max).astype(details["dtype"])


def predict(interpreter: Interpreter, codes: np.ndarray) -> np.ndarray:
    """Return the predicted class of each quantized image, run one at a time."""
    source = interpreter.get_input_details()[0]["index"]
    result = interpreter.get_output_details()[0]["index"]
    classes = []
    for image in codes:
        interpreter.set_tensor(source, image[np.newaxis])
        interpreter.invoke()
        classes.append(int(interpreter.get_tensor(result)[0].argmax()))
    return np.array(classes)


def share_right(name: str, resolver: OpResolverType) -> tuple[float, float]:
    """Return the accuracy of a model on all test images and on the samples beside it."""
    interpreter = Interpreter(str(model_path(name)), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    digits = digit_data.load(UPSCALE.get(name, 1))
    codes = quantize_images(digits.test_images, interpreter.get_input_details()[0])
    samples = np.load(samples_path(name))
    return (
        float((predict(interpreter, codes) == digits.test_labels).mean()),
        float((predict(interpreter, samples["inputs"]) == samples["labels"]).mean()),
    )


def operator_counts(content: bytes) -> collections.Counter[str]:
    """Count the operators of a model's first subgraph by name."""
    names = {code: name for name, code in vars(tflite.BuiltinOperator).items() if name.isupper()}
    model = tflite.Model.GetRootAs(content)
    graph = model.Subgraphs(0)
    codes = [model.OperatorCodes(graph.Operators(i).OpcodeIndex()) for i in range(graph.OperatorsLength())]
    return collections.Counter(names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes)


def model_path(name: str) -> Path:
    """Return where a model is kept."""
    return FOLDER / f"{name}.tflite"


def samples_path(name: str) -> Path:
    """Return where a model's sample inputs and labels are kept."""
    return FOLDER / f"{name}_samples.npz"


def save(name: str, content: bytes) -> None:
    """Write a model and, quantized as it expects them, the first test images; then report on it."""
    model_path(name).write_bytes(content)
    digits = digit_data.load(UPSCALE.get(name, 1))
    details = Interpreter(model_content=content).get_input_details()[0]
    np.savez_compressed(
        samples_path(name),
        inputs=quantize_images(digits.test_images[:SAMPLES], details),
        labels=digits.test_labels[:SAMPLES],
    )
    report(name)


def report(name: str) -> None:
    """Print a model's line of the table; raise SystemExit when it is not accurate enough."""
    content = model_path(name).read_bytes()
    counts = ", ".join(f"{op} {n}" for op, n in operator_counts(content).most_common())
    shares = [share_right(name, resolver) for resolver in KERNEL_SETS.values()]
    test = " / ".join(f"{100 * on_test:.2f}" for on_test, _ in shares)
    samples = " / ".join(f"{SAMPLES * on_samples:.0f}" for _, on_samples in shares)
    print(f"| `{name}` | {counts} | {len(content)} | {test} | {samples} |", flush=True)
    if min(min(pair) for pair in shares) < MIN_ACCURACY:
        raise SystemExit(f"{name}: accuracy below {MIN_ACCURACY:.0%}")


def main() -> None:
    """Report the models named on the command line, or all."""
    for name in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.tflite")):
        report(name)


if __name__ == "__main__":
    main()
