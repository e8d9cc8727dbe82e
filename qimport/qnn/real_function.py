"""Functions that the interpreter has for float32 only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qimport import real
from qimport.ir.graph import operation
from qimport.numerics import Family
from qimport.qnn.unary import UnaryOperation, everywhere


class RealFunction(UnaryOperation):
    """A function of float32. C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`."""

    TYPES = ("float32",)
    DELEGATED = ("float32",)


@operation
@dataclass(frozen=True)
class Ceil(RealFunction):
    """The smallest integer that is not below v; the interpreter has no reference kernel."""

    NAME = "qnn.ceil"
    TFLITE: ClassVar[tuple[str, ...]] = ("CEIL",)
    REAL = everywhere("ceil")
    IN_REFERENCE = False


@operation
@dataclass(frozen=True)
class Cos(RealFunction):
    """The cosine, :func:`qimport.real.circular.cos`; xnnpack :func:`qimport.real.xnnpack.cos`."""

    NAME = "qnn.cos"
    TFLITE: ClassVar[tuple[str, ...]] = ("COS",)
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("cos"), "xnnpack": "cos_of_quotient"}


@operation
@dataclass(frozen=True)
class Floor(RealFunction):
    """The largest integer that is not above v."""

    NAME = "qnn.floor"
    TFLITE: ClassVar[tuple[str, ...]] = ("FLOOR",)
    REAL = everywhere("floor")


@operation
@dataclass(frozen=True)
class Round(RealFunction):
    """The nearest integer, ties to even; the interpreter has no reference kernel.

    builtin gives -0 for zeros only, xnnpack for every number that rounds to 0 from below.
    """

    NAME = "qnn.round"
    TFLITE: ClassVar[tuple[str, ...]] = ("ROUND",)
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("round"), "xnnpack": "rint"}
    IN_REFERENCE = False


@operation
@dataclass(frozen=True)
class Sin(RealFunction):
    """The sine, :func:`qimport.real.circular.sin`; xnnpack :func:`qimport.real.xnnpack.sin`."""

    NAME = "qnn.sin"
    TFLITE: ClassVar[tuple[str, ...]] = ("SIN",)
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("sin"), "xnnpack": "sin_of_quotient"}


@operation
@dataclass(frozen=True)
class Square(RealFunction):
    """v * v."""

    NAME = "qnn.square"
    TFLITE: ClassVar[tuple[str, ...]] = ("SQUARE",)
    REAL = everywhere("square")


REAL_FUNCTIONS: tuple[type[RealFunction], ...] = (Ceil, Cos, Floor, Round, Sin, Square)
"""Every operation of this file."""
