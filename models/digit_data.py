"""The handwritten digits that every model in this folder is trained and measured on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SPLIT_SEED = 0
TEST_FRACTION = 0.25


class Digits(NamedTuple):
    """Images as float32 [n, height, width, 1] in [0, 1], labels as int64 [n] in 0..9."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load(upscale: int = 1) -> Digits:
    """Return scikit-learn's 1797 digits, each pixel repeated `upscale` times in both directions.

    The split is fixed and keeps the ten classes equally frequent in both parts.
    """
    raw = load_digits()
    images = (raw.images / 16.0).astype(np.float32)[..., np.newaxis]
    images = images.repeat(upscale, axis=1).repeat(upscale, axis=2)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, raw.target, test_size=TEST_FRACTION, random_state=SPLIT_SEED, stratify=raw.target
    )
    return Digits(train_images, train_labels.astype(np.int64), test_images, test_labels.astype(np.int64))
