"""Train the MobileNet-style network and write it as int8 with an open batch dimension.

Keras leaves the batch open, so the converter computes the shape of the last RESHAPE at run time:
SHAPE, STRIDED_SLICE and PACK stand before it.
"""

from __future__ import annotations

import conversion
import digit_data
import keras
import measure
import tensorflow as tf
import training
from keras import layers

NAME = "mobile_int8"
EPOCHS = 40
CALIBRATION_IMAGES = 200


def normalized(values: keras.KerasTensor, relu6: bool) -> keras.KerasTensor:
    """Return batch-normalized values [n, h, w, c], clipped to 0..6 if `relu6`."""
    values = layers.BatchNormalization(momentum=0.9)(values)
    return layers.ReLU(6.0)(values) if relu6 else values


def depthwise(values: keras.KerasTensor, stride: int) -> keras.KerasTensor:
    """Return a 3x3 depthwise convolution with RELU6, [n, ceil(h / stride), ceil(w / stride), c]."""
    values = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(values)
    return normalized(values, relu6=True)


def pointwise(values: keras.KerasTensor, filters: int, relu6: bool = True) -> keras.KerasTensor:
    """Return a 1x1 convolution, [n, h, w, filters]."""
    return normalized(layers.Conv2D(filters, 1, use_bias=False)(values), relu6)


def inverted_residual(values: keras.KerasTensor, expansion: int = 2) -> keras.KerasTensor:
    """Return values + (expand, depthwise, project), same shape."""
    channels = values.shape[-1]
    inner = depthwise(pointwise(values, channels * expansion), stride=1)
    return layers.Add()([values, pointwise(inner, channels, relu6=False)])


def mobile_model() -> keras.Model:
    """Return the untrained network for images [n, 24, 24, 1]."""
    image = keras.Input((24, 24, 1), name="image")
    stem = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(image)
    values = pointwise(depthwise(normalized(stem, relu6=True), stride=1), 16, relu6=False)
    values = inverted_residual(values)
    values = pointwise(depthwise(values, stride=2), 32, relu6=False)
    values = inverted_residual(values)
    values = pointwise(values, 64)
    values = layers.GlobalAveragePooling2D(keepdims=True)(values)
    values = layers.Flatten()(values)
    return keras.Model(image, layers.Dense(10, activation="softmax", name="digit")(values))


def main() -> None:
    """Train, convert, save and measure the model."""
    digits = digit_data.load(measure.UPSCALE[NAME])
    model = training.trained(mobile_model, digits, EPOCHS)
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    measure.save(NAME, conversion.calibrated_int8(converter, digits.train_images[:CALIBRATION_IMAGES]))


if __name__ == "__main__":
    main()
