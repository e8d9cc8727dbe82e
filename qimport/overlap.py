"""Non-maximum suppression as TFLite's ``TFLite_Detection_PostProcess`` does it. Normative."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]


class Limits(Protocol):
    """What bounds the choice."""

    @property
    def classes(self) -> int:
        """Classes, which are the last columns of the scores."""

    @property
    def detections(self) -> int:
        """Boxes to choose at most."""

    @property
    def per_box(self) -> int:
        """Classes to report per box, unless ``regular``."""

    @property
    def per_class(self) -> int:
        """Boxes to choose per class at most, if ``regular``."""

    @property
    def regular(self) -> bool:
        """Whether every class is suppressed on its own."""

    @property
    def score_threshold(self) -> float:
        """Scores from which on a box counts."""

    @property
    def overlap_threshold(self) -> float:
        """Intersection over union above which the worse of two boxes goes."""


def choose_boxes(boxes: Float32, scores: Float32, limits: Limits) -> tuple[Float32, ...]:
    """Boxes [M, 4], classes [M], scores [M] and the number of detections [1]; M = detections * per_box.

    Fast: a box's key is its best score. Chosen boxes come by descending key, each with its ``per_box`` best
    classes, as far as there are so many. ``regular``: boxes are chosen for every class by its scores; the
    best pairs come by descending score. Of equal keys or scores the earlier class, then the earlier box
    comes first, but the classes of one box are in the order of :func:`best_places`.
    What is not filled is 0 (the interpreter leaves it as it was, or writes 0).
    """
    used = scores[:, scores.shape[1] - limits.classes :]
    slots = limits.detections * limits.per_box
    found = (np.zeros((slots, 4), np.float32), np.zeros(slots, np.float32), np.zeros(slots, np.float32))
    if limits.regular:
        pairs = [
            (float(used[box, kind]), kind, box)
            for kind in range(limits.classes)
            for box in suppress(boxes, used[:, kind], limits, limits.per_class)
        ]
        pairs = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[: limits.detections]
        for slot, (score, kind, box) in enumerate(pairs):
            _fill(found, slot, boxes[box], kind, score)
        count = len(pairs)
    else:
        chosen = suppress(boxes, used.max(axis=1), limits, limits.detections)
        for number, box in enumerate(chosen):
            best = best_places(used[box], min(limits.per_box, limits.classes))
            for column, kind in enumerate(best):
                _fill(found, number * limits.per_box + column, boxes[box], kind, used[box, kind])
        count = len(chosen)
    return (*found, np.array([count], np.float32))


def _fill(found: tuple[Float32, ...], slot: int, box: Float32, kind: int, score: Any) -> None:
    for place, value in zip(found, (box, kind, score), strict=True):
        place[slot] = value


def suppress(boxes: Float32, keys: Float32, limits: Limits, most: int) -> list[int]:
    """The boxes that are chosen by these keys: the best one, then the best that does not overlap it, ..."""
    left = keys >= np.float32(limits.score_threshold)
    chosen: list[int] = []
    while left.any() and len(chosen) < most:
        best = int(np.argmax(np.where(left, keys, -np.inf)))
        chosen.append(best)
        left &= ~(overlap(boxes, boxes[best]) > np.float32(limits.overlap_threshold))
        left[best] = False
    return chosen


def overlap(boxes: Float32, box: Float32) -> Float32:
    """Intersection over union, each step in float32; 0 where an area is not positive."""
    height, width = (
        np.maximum(np.minimum(boxes[:, k + 2], box[k + 2]) - np.maximum(boxes[:, k], box[k]), np.float32(0))
        for k in (0, 1)
    )
    intersection = height * width
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    with np.errstate(all="ignore"):
        ratio = intersection / ((area + areas) - intersection)
    return np.asarray(np.where((areas <= 0) | (area <= 0), np.float32(0), ratio), np.float32)


def best_places(values: Float32, wanted: int) -> list[int]:
    """The places of the largest values, largest first.

    Equal values are ordered as libstdc++'s ``std::partial_sort`` leaves them, which is not stable. One
    place is that of the first largest value.
    """
    if wanted == 1:
        return [int(np.argmax(values))]
    heap = list(range(len(values)))
    for parent in reversed(range(wanted // 2)):
        _adjust(values, heap, parent, wanted, heap[parent])
    for place in range(wanted, len(values)):
        if values[heap[place]] > values[heap[0]]:
            number, heap[place] = heap[place], heap[0]
            _adjust(values, heap, 0, wanted, number)
    for last in reversed(range(1, wanted)):
        number, heap[last] = heap[last], heap[0]
        _adjust(values, heap, 0, last, number)
    return heap[:wanted]


def _adjust(values: Float32, heap: list[int], hole: int, length: int, number: int) -> None:
    """``std::__adjust_heap``: the hole goes down to a leaf, the number up from there."""
    top = hole
    while hole < (length - 1) // 2:
        child = 2 * (hole + 1)
        child -= int(values[heap[child]] > values[heap[child - 1]])
        heap[hole], hole = heap[child], child
    if 2 * hole + 2 == length:
        heap[hole], hole = heap[2 * hole + 1], 2 * hole + 1
    while hole > top and values[heap[(hole - 1) // 2]] > values[number]:
        heap[hole], hole = heap[(hole - 1) // 2], (hole - 1) // 2
    heap[hole] = number
