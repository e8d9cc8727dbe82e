"""Train the small digit classifier and write it in three quantizations.

`digits_int8_ptq` is calibrated after training, `digits_int8_qat` and `digits_uint8` are trained with
rounding in place.
"""

from __future__ import annotations

import conversion
import digit_data
import keras
import measure
import tensorflow as tf
import training
from digit_data import Digits
from fake_quant import FakeQuant, QuantConv2D, QuantDense, Scheme
from keras import layers

EPOCHS = 40
CALIBRATION_IMAGES = 200


def float_model() -> keras.Model:
    """Return the untrained network in float: two convolutions, a pool, two dense layers, a softmax."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(32, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )


def rounded_model(conv: Scheme, dense: Scheme) -> keras.Model:
    """Return the same network, untrained, with its weights and activations fake-quantized."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            FakeQuant(Scheme.ACTIVATION),
            QuantConv2D(16, 3, conv),
            QuantConv2D(32, 3, conv, stride=2),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            QuantDense(32, dense, relu=True),
            QuantDense(10, dense),
            layers.Softmax(),
        ]
    )


def make_int8_ptq(digits: Digits) -> bytes:
    """Return the network trained in float and calibrated on training images."""
    model = training.trained(float_model, digits, EPOCHS)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([conversion.inference_function(model)])
    return conversion.calibrated_int8(converter, digits.train_images[:CALIBRATION_IMAGES])


def make_int8_qat(digits: Digits) -> bytes:
    """Return the network trained for int8: convolutions per channel, dense layers per tensor."""
    model = training.trained(
        lambda: rounded_model(Scheme.WEIGHT_PER_CHANNEL, Scheme.WEIGHT_SYMMETRIC), digits, EPOCHS
    )
    return conversion.trained_int8(model)


def make_uint8(digits: Digits) -> bytes:
    """Return the network trained for uint8: every tensor has one scale and a zero point."""
    model = training.trained(
        lambda: rounded_model(Scheme.WEIGHT_ASYMMETRIC, Scheme.WEIGHT_ASYMMETRIC), digits, EPOCHS
    )
    return conversion.trained_uint8(model)


def main() -> None:
    """Train, convert, save and measure the three models."""
    digits = digit_data.load()
    measure.save("digits_int8_ptq", make_int8_ptq(digits))
    measure.save("digits_int8_qat", make_int8_qat(digits))
    measure.save("digits_uint8", make_uint8(digits))


if __name__ == "__main__":
    main()
