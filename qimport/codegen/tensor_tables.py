"""The part of a C header that describes all tensors as constant tables, for those who ask for it."""

from __future__ import annotations

import numpy as np

from qimport.codegen.interface import TYPE_NUMBERS, Interface, TensorInfo


def tensor_tables(api: Interface) -> str:
    """Tables for programs that define NAME_TENSOR_TABLES before they include the header.

    They are of static storage, so that each file that wants them has them, and nobody else.
    """
    p, m = api.prefix, api.macro
    types = {np.dtype(tensor.dtype).name for _, _, tensor in api.tensors}
    numbers = [
        f"#define {m}_TYPE_{name.upper()} {number}\n"
        for name, number in TYPE_NUMBERS.items()
        if name in types
    ]
    return f"""\
#ifdef {m}_TENSOR_TABLES
/* Element types, with the numbers of TfLiteType. */
{"".join(numbers)}
/** \\brief What there is to know of a tensor. */
typedef struct {p}_tensor {{
  const char *name;            /**< name in the model, UTF-8 */
  int type;                    /**< one of {m}_TYPE_... */
  size_t elements;             /**< how many */
  size_t bytes;                /**< size of all elements */
  int rank;                    /**< how many dimensions */
  const int32_t *dims;         /**< their sizes, the outermost first */
  int scale_count;             /**< 0: not quantized, 1: one scale, else one per index of axis */
  int axis;                    /**< the dimension that several scales belong to, or -1 */
  const float *scales;         /**< real value = scale * (code - zero point); NULL without */
  const int32_t *zero_points;  /**< as many; NULL without */
}} {p}_tensor;

{_arrays(api)}
{_table(api, "INPUT", api.inputs)}
{_table(api, "OUTPUT", api.outputs)}#endif /* {m}_TENSOR_TABLES */
"""


def _arrays(api: Interface) -> str:
    """The arrays that the tables point to."""
    lines = []
    for kind, number, tensor in api.tensors:
        macro, name = f"{api.macro}_{kind}{number}", f"{api.prefix}_{kind.lower()}{number}"
        lines.append(f"static const int32_t {name}_dims[] = {macro}_DIMS;\n")
        if len(tensor.scales) == 1:
            lines.append(f"static const float {name}_scales[] = {{{macro}_SCALE}};\n")
            lines.append(f"static const int32_t {name}_zero_points[] = {{{macro}_ZERO_POINT}};\n")
        elif tensor.scales:
            lines.append(f"static const float {name}_scales[] = {macro}_SCALES;\n")
            lines.append(f"static const int32_t {name}_zero_points[] = {macro}_ZERO_POINTS;\n")
    return "".join(lines)


def _table(api: Interface, kind: str, tensors: tuple[TensorInfo, ...]) -> str:
    """One table; a row of zeros ends it, so that it has rows also where there are no such tensors."""
    rows = []
    for number, tensor in enumerate(tensors):
        macro, name = f"{api.macro}_{kind}{number}", f"{api.prefix}_{kind.lower()}{number}"
        type_ = f"{api.macro}_TYPE_{np.dtype(tensor.dtype).name.upper()}"
        several = tensor.axis is not None and len(tensor.scales) > 1
        axis = tensor.axis if several else -1
        arrays = f"{name}_scales, {name}_zero_points" if tensor.scales else "NULL, NULL"
        shape = f"{macro}_ELEMENTS, {macro}_BYTES, {macro}_RANK, {name}_dims"
        rows.append(
            f"    {{{macro}_NAME, {type_}, {shape},\n     {len(tensor.scales)}, {axis}, {arrays}}},\n"
        )
    rows.append("    {NULL, 0, 0, 0, 0, NULL, 0, 0, NULL, NULL},\n")
    p, name = api.prefix, f"{kind.lower()}s"
    note = f"/** \\brief The {name} in the order of {p}_run, and a row of zeros. */\n"
    return f"{note}static const {p}_tensor {p}_{name}[{api.macro}_{kind}S + 1] = {{\n{''.join(rows)}}};\n"
