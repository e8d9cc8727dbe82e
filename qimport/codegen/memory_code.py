"""memcpy, memmove and memset for shared libraries, which shall need no other library.

Blocks of 32 bytes, then single bytes. ``no-builtins`` keeps LLVM from making calls of the very functions of
these loops.
"""

from __future__ import annotations

from string import Template

from qimport.codegen.target import Target

_CODE = Template("""
target triple = "$triple"

define hidden ptr @memcpy(ptr %to, ptr %from, $size %count) #0 {
entry:
  %blocks = and $size %count, -32
  %any.block = icmp ne $size %blocks, 0
  br i1 %any.block, label %block, label %rest
block:
  %b = phi $size [ 0, %entry ], [ %b.next, %block ]
  %b.from = getelementptr i8, ptr %from, $size %b
  %b.to = getelementptr i8, ptr %to, $size %b
  %b.value = load <32 x i8>, ptr %b.from, align 1
  store <32 x i8> %b.value, ptr %b.to, align 1
  %b.next = add $size %b, 32
  %b.more = icmp ult $size %b.next, %blocks
  br i1 %b.more, label %block, label %rest
rest:
  %any.byte = icmp ult $size %blocks, %count
  br i1 %any.byte, label %byte, label %end
byte:
  %i = phi $size [ %blocks, %rest ], [ %i.next, %byte ]
  %i.from = getelementptr i8, ptr %from, $size %i
  %i.to = getelementptr i8, ptr %to, $size %i
  %i.value = load i8, ptr %i.from
  store i8 %i.value, ptr %i.to
  %i.next = add $size %i, 1
  %i.more = icmp ult $size %i.next, %count
  br i1 %i.more, label %byte, label %end
end:
  ret ptr %to
}

; Forwards is right unless %to lies inside of what is copied; a block is loaded before it is stored.
define hidden ptr @memmove(ptr %to, ptr %from, $size %count) #0 {
entry:
  %to.number = ptrtoint ptr %to to $size
  %from.number = ptrtoint ptr %from to $size
  %distance = sub $size %to.number, %from.number
  %inside = icmp ult $size %distance, %count
  br i1 %inside, label %backwards, label %forwards
forwards:
  %copied = call ptr @memcpy(ptr %to, ptr %from, $size %count)
  ret ptr %to
backwards:
  %left = phi $size [ %count, %entry ], [ %b.next, %block ]
  %any.block = icmp uge $size %left, 32
  br i1 %any.block, label %block, label %rest
block:
  %b.next = sub $size %left, 32
  %b.from = getelementptr i8, ptr %from, $size %b.next
  %b.to = getelementptr i8, ptr %to, $size %b.next
  %b.value = load <32 x i8>, ptr %b.from, align 1
  store <32 x i8> %b.value, ptr %b.to, align 1
  br label %backwards
rest:
  %i = phi $size [ %left, %backwards ], [ %i.next, %byte ]
  %any.byte = icmp ne $size %i, 0
  br i1 %any.byte, label %byte, label %end
byte:
  %i.next = sub $size %i, 1
  %i.from = getelementptr i8, ptr %from, $size %i.next
  %i.to = getelementptr i8, ptr %to, $size %i.next
  %i.value = load i8, ptr %i.from
  store i8 %i.value, ptr %i.to
  br label %rest
end:
  ret ptr %to
}

define hidden ptr @memset(ptr %to, i32 %value, $size %count) #0 {
entry:
  %byte.value = trunc i32 %value to i8
  %first = insertelement <32 x i8> poison, i8 %byte.value, i32 0
  %all = shufflevector <32 x i8> %first, <32 x i8> poison, <32 x i32> zeroinitializer
  %blocks = and $size %count, -32
  %any.block = icmp ne $size %blocks, 0
  br i1 %any.block, label %block, label %rest
block:
  %b = phi $size [ 0, %entry ], [ %b.next, %block ]
  %b.to = getelementptr i8, ptr %to, $size %b
  store <32 x i8> %all, ptr %b.to, align 1
  %b.next = add $size %b, 32
  %b.more = icmp ult $size %b.next, %blocks
  br i1 %b.more, label %block, label %rest
rest:
  %any.byte = icmp ult $size %blocks, %count
  br i1 %any.byte, label %byte, label %end
byte:
  %i = phi $size [ %blocks, %rest ], [ %i.next, %byte ]
  %i.to = getelementptr i8, ptr %to, $size %i
  store i8 %byte.value, ptr %i.to
  %i.next = add $size %i, 1
  %i.more = icmp ult $size %i.next, %count
  br i1 %i.more, label %byte, label %end
end:
  ret ptr %to
}

attributes #0 = { nounwind "no-builtins" }
""")


def memory_code(target: Target) -> str:
    """LLVM assembly of the three functions."""
    return _CODE.substitute(triple=target.triple, size=f"i{8 * target.pointer_bytes}")
