"""EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL."""

from __future__ import annotations

from qimport.elements import Relation
from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, OperatorImporter, importer
from qimport.qnn.compare import Compare, dtypes

VERSIONS: dict[Relation, range] = {
    "equal": range(1, 6),
    "not_equal": range(1, 5),
    "greater": range(1, 3),
    "greater_equal": range(1, 4),
    "less": range(1, 4),
    "less_equal": range(1, 3),
}


def _importer_of(kind: Relation) -> OperatorImporter:
    def import_relation(context: OperatorContext) -> None:
        context.operands(2)
        a, b = context.input(0), context.input(1)
        if a.type.dtype not in dtypes(kind):
            wanted = ", ".join(dtypes(kind))
            context.unsupported(f"the element type is {a.type.dtype}; expected one of {wanted}", a)
        checks.same_type(context, a, b)
        context.emit(Compare(kind), (a, b), checks.broadcast(context, (a, b)))

    return import_relation


for _kind, _versions in VERSIONS.items():
    importer(_kind.upper(), versions=_versions)(_importer_of(_kind))
