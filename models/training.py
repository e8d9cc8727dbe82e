"""How every network of this folder is trained."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf
from digit_data import Digits

SEED = 1
BATCH = 32
STEP_SIZE = 3e-3


def trained(build: Callable[[], keras.Model], digits: Digits, epochs: int) -> keras.Model:
    """Build a classifier that ends in a softmax and fit it, with a step size that decays to zero.

    Seeds and the order of sums are fixed: the same machine and versions train the same weights.
    """
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(SEED)
    model = build()
    steps = epochs * -(-len(digits.train_images) // BATCH)
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(STEP_SIZE, steps)),
        loss="sparse_categorical_crossentropy",
        jit_compile=False,
    )
    model.fit(digits.train_images, digits.train_labels, batch_size=BATCH, epochs=epochs, verbose=0)
    return model
