"""Train the Inception-style network and write it as uint8 with the TensorFlow 1 converter.

Each input of a CONCATENATION keeps the scale and zero point that its own branch was trained with, so the
operator has to rescale them.
"""

from __future__ import annotations

import conversion
import digit_data
import keras
import measure
import training
from fake_quant import FakeQuant, QuantConv2D, QuantDense, Scheme
from keras import layers

NAME = "inception_uint8"
EPOCHS = 30
WEIGHTS = Scheme.WEIGHT_ASYMMETRIC


def conv(values: keras.KerasTensor, filters: int, size: int, **options: int | bool) -> keras.KerasTensor:
    """Return a SAME convolution with rounded weights and result."""
    return QuantConv2D(filters, size, WEIGHTS, **options)(values)


def joined(*branches: keras.KerasTensor) -> keras.KerasTensor:
    """Return the branches side by side in the last axis, rounded to a range of their own."""
    return FakeQuant(Scheme.ACTIVATION)(layers.Concatenate()(branches))


def inception(values: keras.KerasTensor) -> keras.KerasTensor:
    """Return 1x1, 3x3, 5x5 and average-pool branches, [n, h, w, 40]."""
    pooled = layers.AveragePooling2D(3, strides=1, padding="same")(values)
    return joined(
        conv(values, 8, 1),
        conv(conv(values, 8, 1), 16, 3),
        # Without RELU this branch gets a zero point that is not 0.
        conv(conv(values, 4, 1), 8, 5, relu=False),
        conv(pooled, 8, 1),
    )


def reduction(values: keras.KerasTensor) -> keras.KerasTensor:
    """Return a strided 3x3 branch and a max-pool branch, [n, ceil(h / 2), ceil(w / 2), c + 16]."""
    pooled = layers.MaxPooling2D(3, strides=2, padding="same")(values)
    return joined(conv(values, 16, 3, stride=2), pooled)


def inception_model() -> keras.Model:
    """Return the untrained network for images [n, 8, 8, 1]."""
    image = keras.Input((8, 8, 1))
    values = conv(FakeQuant(Scheme.ACTIVATION)(image), 12, 3)
    values = inception(reduction(inception(values)))
    values = layers.Flatten()(layers.AveragePooling2D(4)(values))
    return keras.Model(image, layers.Softmax()(QuantDense(10, WEIGHTS)(values)))


def main() -> None:
    """Train, convert, save and measure the model."""
    model = training.trained(inception_model, digit_data.load(), EPOCHS)
    measure.save(NAME, conversion.trained_uint8(model))


if __name__ == "__main__":
    main()
