"""Why an operator without importer is refused."""

from __future__ import annotations

from qimport.frontend.model import Operator

CONTROL_FLOW = (
    "CALL",
    "STABLEHLO_CASE",
    "STABLEHLO_WHILE",
    "STABLEHLO_COMPOSITE",
)
"""Operators that run other subgraphs and are not supported."""

_DATA_SHAPES = "the shape of its results depends on the content of its operands, but shapes are static here"
_RANDOM = "it draws random numbers, so that there are no bytes to equal"
_TABLES = "tables of strings or numbers that are filled at run time are not supported"

WHY_NOT = {
    "UNIQUE": _DATA_SHAPES,
    "MULTINOMIAL": _RANDOM,
    "RANDOM_STANDARD_NORMAL": _RANDOM,
    "RANDOM_UNIFORM": _RANDOM,
    "STABLEHLO_RNG_BIT_GENERATOR": _RANDOM,
    "HASHTABLE": _TABLES,
    "HASHTABLE_FIND": _TABLES,
    "HASHTABLE_IMPORT": _TABLES,
    "HASHTABLE_LOOKUP": _TABLES,
    "HASHTABLE_SIZE": _TABLES,
}
"""Operators for which there is more to say than that they are not supported."""

UNKNOWN_CUSTOM = (
    "custom operators are not supported; qimport.register_custom_operator takes a function that imports it"
)


def why_not(operator: Operator) -> str:
    """The sentence of the refusal."""
    if operator.builtin == "CUSTOM":
        return UNKNOWN_CUSTOM
    if operator.builtin in CONTROL_FLOW:
        return "control flow is not supported"
    return WHY_NOT.get(operator.builtin, "the operator is not supported")
