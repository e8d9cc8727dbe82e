"""From a trained Keras model to the bytes of a `.tflite` file."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def inference_function(model: keras.Model) -> tf.types.experimental.ConcreteFunction:
    """Return `model` for a batch of exactly one, with its variables turned into constants."""
    spec = tf.TensorSpec((1, *model.input_shape[1:]), tf.float32, name="image")
    function = tf.function(lambda image: model(image, training=False))
    return convert_variables_to_constants_v2(function.get_concrete_function(spec))


def trained_int8(model: keras.Model) -> bytes:
    """Convert a model made of `fake_quant` layers to int8 with int8 input and output."""
    converter = tf.lite.TFLiteConverter.from_concrete_functions([inference_function(model)])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    return converter.convert()


def trained_uint8(model: keras.Model) -> bytes:
    """Convert a model made of `fake_quant` layers to uint8, as the TensorFlow 1 converter wrote it.

    The input is uint8 with scale 1/255 and zero point 0, for images in [0, 1].
    """
    frozen = inference_function(model)
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(frozen.graph.as_graph_def(), name="")
    inputs = [graph.get_tensor_by_name(tensor.name) for tensor in frozen.inputs]
    outputs = [graph.get_tensor_by_name(tensor.name) for tensor in frozen.outputs]
    with tf.compat.v1.Session(graph=graph) as session:
        converter = tf.compat.v1.lite.TFLiteConverter.from_session(session, inputs, outputs)
        converter.inference_type = tf.uint8
        converter.quantized_input_stats = {inputs[0].op.name: (0.0, 255.0)}
        return converter.convert()


def calibrated_int8(converter: tf.lite.TFLiteConverter, images: np.ndarray) -> bytes:
    """Quantize a float model to int8, input and output too, with ranges observed on `images`."""

    def calibration() -> Iterator[list[np.ndarray]]:
        for image in images:
            yield [image[np.newaxis]]

    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = calibration
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    return converter.convert()
