"""The code of a thread pool: ``pool_parallel_for`` for generated programs and ``pool_work`` for its workers.

A pool is :data:`POOL_BYTES` of memory that begins as zeros:

- ``owner`` is 1 while a caller has the pool. Whoever finds it taken runs its task alone.
- ``ticket`` is generation << 32 | count << 16 | next: parts ``next`` to ``count`` of the task are not taken.
  A part is taken by a compare-and-exchange of the whole ticket, so that nobody takes a part of a task that
  is not the one it has read: the owner makes a new generation only when every part of the last is done.
- ``task`` and ``context`` belong to the ticket and are written before it.
- ``remaining`` counts parts that are not done, ``waiting`` says that the owner sleeps until there are none.
- ``sleepers`` counts workers that sleep until the generation changes.

Waiting is a bounded number of pauses, then a futex. Who goes to sleep first writes so and then looks again;
who wakes first writes what the sleeper waits for and then looks for sleepers; all of it sequentially
consistent, so that one of the two sees the other.
"""

from __future__ import annotations

from string import Template

from qimport.codegen.target import ARM64, X86_64, Architecture

POOL_BYTES = 192
"""Three cache lines: the owner, the ticket with its task, and the counters."""

MOST_PARTS = 0xFFFF
"""Parts that the 16 bits of a ticket can count."""

PAUSES = 2000
"""Before a thread sleeps: some 100 microseconds on x86-64, more than lies between two tasks of a model."""

_MACHINES = {
    X86_64.name: {
        "declaration": "declare void @llvm.x86.sse2.pause()",
        "pause": "call void @llvm.x86.sse2.pause()",
        "futex": "202",
    },
    ARM64.name: {
        "declaration": "declare void @llvm.aarch64.isb(i32)",
        "pause": "call void @llvm.aarch64.isb(i32 15)",
        "futex": "98",
    },
}
"""What lets the core rest for a moment, and the number of Linux's system call."""

_CODE = Template("""
target triple = "$triple"

;                owner      line       ticket task context line   remaining waiting sleepers
%pool = type { i32, [60 x i8], i64, ptr, ptr, [40 x i8], i32, i32, i32, [52 x i8] }

$declaration

define internal void @sleep(ptr %word, i32 %seen) nounwind {
  %futex = inttoptr i64 $syscall to ptr
  call i64 (i64, ...) %futex(i64 $futex, ptr %word, i32 128, i32 %seen, ptr null) ; FUTEX_WAIT_PRIVATE
  ret void
}

define internal void @wake(ptr %word, i32 %count) nounwind {
  %futex = inttoptr i64 $syscall to ptr
  call i64 (i64, ...) %futex(i64 $futex, ptr %word, i32 129, i32 %count) ; FUTEX_WAKE_PRIVATE
  ret void
}

; Whether parts of a ticket are not taken.
define internal i1 @left(i64 %ticket) nounwind {
  %part = and i64 %ticket, $most_parts
  %counted = lshr i64 %ticket, 16
  %count = and i64 %counted, $most_parts
  %left = icmp ult i64 %part, %count
  ret i1 %left
}

; Takes and runs one part; false if none is left.
define internal i1 @take(ptr %pool) nounwind {
entry:
  %ticket.at = getelementptr %pool, ptr %pool, i32 0, i32 2
  %task.at = getelementptr %pool, ptr %pool, i32 0, i32 3
  %context.at = getelementptr %pool, ptr %pool, i32 0, i32 4
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket.at acquire, align 8
  %left = call i1 @left(i64 %ticket)
  br i1 %left, label %claim, label %none
claim:
  %task = load atomic ptr, ptr %task.at monotonic, align 8
  %context = load atomic ptr, ptr %context.at monotonic, align 8
  %following = add i64 %ticket, 1
  %exchange = cmpxchg ptr %ticket.at, i64 %ticket, i64 %following acq_rel acquire
  %mine = extractvalue { i64, i1 } %exchange, 1
  br i1 %mine, label %run, label %look
run:
  %part = and i64 %ticket, $most_parts
  call void %task(ptr %context, i64 %part)
  %remaining.at = getelementptr %pool, ptr %pool, i32 0, i32 6
  %before = atomicrmw sub ptr %remaining.at, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %finish, label %some
finish:
  %waiting.at = getelementptr %pool, ptr %pool, i32 0, i32 7
  %waiting = load atomic i32, ptr %waiting.at seq_cst, align 4
  %sleeps = icmp ne i32 %waiting, 0
  br i1 %sleeps, label %notify, label %some
notify:
  call void @wake(ptr %remaining.at, i32 1)
  br label %some
some:
  ret i1 true
none:
  ret i1 false
}

; Runs parts for ever. The generation, which workers sleep on, is the upper half of the ticket.
define void @pool_work(ptr %pool) nounwind {
entry:
  %ticket.at = getelementptr %pool, ptr %pool, i32 0, i32 2
  %generation.at = getelementptr i8, ptr %ticket.at, i64 4
  %sleepers.at = getelementptr %pool, ptr %pool, i32 0, i32 8
  br label %look
look:
  %idle = phi i32 [ 0, %entry ], [ 0, %look ], [ %longer, %rest ], [ 0, %rise ]
  %worked = call i1 @take(ptr %pool)
  br i1 %worked, label %look, label %rest
rest:
  $pause
  %longer = add i32 %idle, 1
  %tired = icmp uge i32 %longer, $pauses
  br i1 %tired, label %lie, label %look
lie:
  atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  %ticket = load atomic i64, ptr %ticket.at seq_cst, align 8
  %left = call i1 @left(i64 %ticket)
  br i1 %left, label %rise, label %nap
nap:
  %upper = lshr i64 %ticket, 32
  %generation = trunc i64 %upper to i32
  call void @sleep(ptr %generation.at, i32 %generation)
  br label %rise
rise:
  atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %look
}

define void @pool_parallel_for(ptr %pool, ptr %task, ptr %context, i64 %count) nounwind {
entry:
  %fits = icmp ule i64 %count, $most_parts
  br i1 %fits, label %ask, label %begin
ask:
  %exchange = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %exchange, 1
  br i1 %mine, label %publish, label %begin

begin:
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %end, label %alone
alone:
  %part = phi i64 [ 0, %begin ], [ %next, %alone ]
  call void %task(ptr %context, i64 %part)
  %next = add i64 %part, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %alone, label %end

publish:
  %ticket.at = getelementptr %pool, ptr %pool, i32 0, i32 2
  %generation.at = getelementptr i8, ptr %ticket.at, i64 4
  %task.at = getelementptr %pool, ptr %pool, i32 0, i32 3
  %context.at = getelementptr %pool, ptr %pool, i32 0, i32 4
  %remaining.at = getelementptr %pool, ptr %pool, i32 0, i32 6
  %waiting.at = getelementptr %pool, ptr %pool, i32 0, i32 7
  %sleepers.at = getelementptr %pool, ptr %pool, i32 0, i32 8
  %all = trunc i64 %count to i32
  store atomic ptr %task, ptr %task.at monotonic, align 8
  store atomic ptr %context, ptr %context.at monotonic, align 8
  store atomic i32 %all, ptr %remaining.at monotonic, align 4
  %old = load atomic i64, ptr %ticket.at monotonic, align 8
  %generation = and i64 %old, -4294967296
  %following = add i64 %generation, 4294967296
  %counted = shl i64 %count, 16
  %new = or i64 %following, %counted
  atomicrmw xchg ptr %ticket.at, i64 %new seq_cst
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %rouse, label %work
rouse:
  %others = sub i32 %all, 1
  call void @wake(ptr %generation.at, i32 %others)
  br label %work
work:
  %worked = call i1 @take(ptr %pool)
  br i1 %worked, label %work, label %wait

wait:
  %idle = phi i32 [ 0, %work ], [ %longer, %rest ]
  %undone = load atomic i32, ptr %remaining.at acquire, align 4
  %done = icmp eq i32 %undone, 0
  br i1 %done, label %release, label %rest
rest:
  $pause
  %longer = add i32 %idle, 1
  %tired = icmp uge i32 %longer, $pauses
  br i1 %tired, label %lie, label %wait
lie:
  store atomic i32 1, ptr %waiting.at seq_cst, align 4
  br label %nap
nap:
  %still = load atomic i32, ptr %remaining.at seq_cst, align 4
  %over = icmp eq i32 %still, 0
  br i1 %over, label %rise, label %sleep
sleep:
  call void @sleep(ptr %remaining.at, i32 %still)
  br label %nap
rise:
  store atomic i32 0, ptr %waiting.at monotonic, align 4
  br label %release
release:
  store atomic i32 0, ptr %pool release, align 4
  br label %end
end:
  ret void
}
""")


def supports(architecture: Architecture) -> bool:
    """Whether there is such code."""
    return architecture.name in _MACHINES


def pool_code(architecture: Architecture, syscall: int) -> str:
    """LLVM assembly; ``syscall`` is the address of the C library's function of that name."""
    machine = _MACHINES[architecture.name]
    limits = {"most_parts": MOST_PARTS, "pauses": PAUSES}
    return _CODE.substitute(machine, **limits, triple=architecture.triple, syscall=syscall)
