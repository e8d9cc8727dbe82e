"""Keras layers for quantization-aware training.

Every value that will be 8 bit in the file passes a `FakeQuant` layer: it rounds to the 256 levels of a
range, and lets gradients through. The converters take the ranges from those operators, so nothing is
calibrated afterwards.
"""

from __future__ import annotations

import enum

import keras
import tensorflow as tf


class Scheme(enum.Enum):
    """How a tensor is quantized."""

    ACTIVATION = "per tensor, with a zero point, moving average of the range"
    WEIGHT_ASYMMETRIC = "per tensor, with a zero point"
    WEIGHT_SYMMETRIC = "per tensor, zero point 0"
    WEIGHT_PER_CHANNEL = "per last axis, zero point 0"


class FakeQuant(keras.layers.Layer):
    """Round to 256 levels (255 for weights) of a range that training observes and inference reads."""

    MOMENTUM = 0.98

    def __init__(self, scheme: Scheme) -> None:
        super().__init__()
        self.scheme = scheme

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make the range: one pair, or one per channel of the last axis."""
        # The first batches must not be clipped: what lies outside the range has no gradient.
        low, high = (keras.initializers.Constant(limit) for limit in (-6.0, 6.0))
        range_shape = shape[-1:] if self.scheme is Scheme.WEIGHT_PER_CHANNEL else ()
        self.low = self.add_weight(name="low", shape=range_shape, initializer=low, trainable=False)
        self.high = self.add_weight(name="high", shape=range_shape, initializer=high, trainable=False)

    def call(self, values: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return `values` rounded; same shape, float32."""
        if training:
            self._observe(values)
        if self.scheme is Scheme.WEIGHT_PER_CHANNEL:
            return tf.quantization.fake_quant_with_min_max_vars_per_channel(
                values, self.low, self.high, narrow_range=True
            )
        return tf.quantization.fake_quant_with_min_max_vars(
            values, self.low, self.high, narrow_range=self.scheme is not Scheme.ACTIVATION
        )

    def _observe(self, values: tf.Tensor) -> None:
        axes = list(range(values.shape.rank - 1)) if self.scheme is Scheme.WEIGHT_PER_CHANNEL else None
        # Zero must be a level: padding and RELU need it exactly.
        low = tf.minimum(tf.reduce_min(values, axes), 0.0)
        high = tf.maximum(tf.reduce_max(values, axes), 0.0)
        if self.scheme in (Scheme.WEIGHT_SYMMETRIC, Scheme.WEIGHT_PER_CHANNEL):
            high = tf.maximum(high, -low)
            low = -high
        keep = self.MOMENTUM if self.scheme is Scheme.ACTIVATION else 0.0
        self.low.assign(keep * self.low + (1.0 - keep) * low)
        self.high.assign(keep * self.high + (1.0 - keep) * high)


class QuantConv2D(keras.layers.Layer):
    """SAME convolution, bias and activation; kernel and result are fake-quantized."""

    def __init__(self, filters: int, size: int, scheme: Scheme, stride: int = 1, relu: bool = True) -> None:
        super().__init__()
        self.filters, self.size, self.stride, self.relu = filters, size, stride, relu
        self.quantize_kernel = FakeQuant(scheme)
        self.quantize_result = FakeQuant(Scheme.ACTIVATION)

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make kernel [size, size, in, filters] and bias [filters]."""
        kernel_shape = (self.size, self.size, shape[-1], self.filters)
        self.kernel = self.add_weight(name="kernel", shape=kernel_shape, initializer="he_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer="zeros")

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Map float32 [n, h, w, in] to [n, ceil(h / stride), ceil(w / stride), filters]."""
        kernel = self.quantize_kernel(self.kernel, training=training)
        sums = tf.nn.bias_add(tf.nn.conv2d(images, kernel, self.stride, "SAME"), self.bias)
        return self.quantize_result(tf.nn.relu(sums) if self.relu else sums, training=training)


class QuantDense(keras.layers.Layer):
    """Fully connected layer on [n, in]; kernel and result are fake-quantized."""

    def __init__(self, units: int, scheme: Scheme, relu: bool = False) -> None:
        super().__init__()
        self.units, self.relu = units, relu
        self.quantize_kernel = FakeQuant(scheme)
        self.quantize_result = FakeQuant(Scheme.ACTIVATION)

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make kernel [in, units] and bias [units]."""
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], self.units), initializer="he_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, rows: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Map float32 [n, in] to [n, units]."""
        kernel = self.quantize_kernel(self.kernel, training=training)
        sums = tf.nn.bias_add(tf.matmul(rows, kernel), self.bias)
        return self.quantize_result(tf.nn.relu(sums) if self.relu else sums, training=training)
