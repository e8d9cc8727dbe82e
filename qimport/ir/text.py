"""The text form of graphs: one grammar for every dialect, no syntax of an operation's own.

::

    graph @digits(%x: i8[1x8x8x1]<0x1.0000000000000p-4:-128>) {
      %w = constant i8[6x3x3x1] blob("9f86d081884c7d65")
      %b = constant i32[6] dense[12, -7, 0, 3, 99, -41]
      %acc = prim.mac(%x, %w, %b) {dilation=(1, 1), groups=1, ...} : i32[1x6x6x6] from "operator 0 (CONV_2D)"
      return %acc
    }

Grammar (``;`` starts a comment, blanks and line ends are free, ``,*`` is a comma-separated list)::

    graph      "graph" "@"NAME "(" (VALUE ":" type),* ")" "{"
               statement* ("next" VALUE "=" VALUE)* "return" VALUE,* "}"
    statement  VALUE "=" ("constant" | "state") type data
             | VALUE,* "=" OPERATION "(" (VALUE | "_"),* ")" ("{" (FIELD "=" literal),* "}")? ":" type,*
               ("from" STRING)? ("with" graph,*)?
    type       ELEMENT "[" (SIZE "x" SIZE ...)? "]" ("<" (FLOAT ":" INT),* ("@" AXIS)? ">")?
    data       "dense" "[" scalar,* "]"   every element in row-major order
             | "splat" "(" scalar ")"     one value everywhere
             | "fill" "(" "seed" "=" INT ")"   see random_array; never printed
             | "blob" "(" STRING ")"      content kept beside the text, under its hash
    literal    INT | FLOAT | STRING | "True" | "False" | "None" | "(" literal,* ")"

``state`` defines the content of memory that outlives a call: ``data`` before the first, what ``next`` says
after each. ``_`` is an absent operand, ``from`` the node's origin, ``with`` precedes the graphs that control
flow runs, ``(...)`` is always a tuple. Floats print in hexadecimal,
so that nothing is lost. Printed names are unique; characters that a name cannot hold become ``_``. Attributes
print sorted and complete; when read, those with a default may be left out.

Text -> graph -> text is the identity on printed text, and so is graph -> text -> graph up to names, given
``collect_blobs(graph)`` for the large constants.
"""

from qimport.ir.parser import parse_array, parse_graph, random_array
from qimport.ir.printer import blob_name, collect_blobs, format_array, print_graph

__all__ = [
    "blob_name",
    "collect_blobs",
    "format_array",
    "parse_array",
    "parse_graph",
    "print_graph",
    "random_array",
]
