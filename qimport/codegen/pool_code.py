"""The code of a thread pool: ``pool_parallel_for`` for generated programs and ``pool_work`` for its workers.

Part ``i`` of a task runs on thread ``i`` modulo the number of threads, 0 being the caller: plans lay out
memory so that a thread finds in its cache what it wrote before. Parts that a worker has not begun when the
caller has nothing left to do, because it sleeps or has no core, the caller runs itself.

A pool is :func:`pool_bytes` of memory that begins as zeros, in blocks of :data:`BLOCK` bytes:

- ``owner`` is 1 while a caller has the pool. Whoever finds it taken runs its task alone.
- ``ticket`` is generation << 16 | count of parts; generations do not come again in years. ``task`` and
  ``context`` belong to it and are written before.
- ``workers`` is the number of workers and ``room`` that of parts that have words; both are written before the
  first ticket. Parts beyond ``room`` are the caller's.
- ``sleepers`` counts workers that sleep until the generation changes; ``waiting`` says that the owner sleeps
  until a part is done.
- Each part has two words: ``claimed`` and ``done`` are the last generation in which somebody began and ended
  it. They lie in blocks of their own, so that a worker that is on time finds ``claimed`` in its cache.

Whoever claims a part has read ``claimed`` before the ticket. While the part is not claimed in a generation,
the owner stays in that generation; so an exchange that finds ``claimed`` as it was is of the ticket's task.

Waiting is a bounded number of pauses, then a futex. Who goes to sleep first writes so and then looks again;
who wakes first writes what the sleeper waits for and then looks for sleepers; all of it sequentially
consistent, so that one of the two sees the other. The futex is the lower half of the ticket or of ``done``.
"""

from __future__ import annotations

from string import Template

from qimport.codegen.target import ARM64, X86_64, Architecture

BLOCK = 128
"""Bytes: two cache lines, since processors fetch lines in pairs."""

TICKET, _SLEEPERS, _PARTS = BLOCK, 2 * BLOCK, 3 * BLOCK
"""Offsets in the pool; the owner has the first block."""

MOST_PARTS = 0xFFFF
"""What ``room`` may be at most."""

WORKERS, ROOM = TICKET + 24, TICKET + 28
"""Offsets of two 32-bit numbers."""

PAUSES = 2000
"""Before a thread sleeps: some 100 microseconds on x86-64, more than lies between two tasks of a model."""

PATIENCE = 16
"""Pauses, about a microsecond, that the caller grants a worker to begin its part."""

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

;                ticket task context workers room
%shared = type { i64, ptr, ptr, i32, i32 }
;                  sleepers waiting
%sleeping = type { i32, i32 }
;              claimed line            done line
%part = type { i64, [$rest x i8], i64, [$rest x i8] }

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

define internal i64 @generation(i64 %ticket) nounwind {
  %generation = lshr i64 %ticket, 16
  ret i64 %generation
}

define internal ptr @part(ptr %pool, i64 %number) nounwind {
  %parts = getelementptr i8, ptr %pool, i64 $parts
  %part = getelementptr %part, ptr %parts, i64 %number
  ret ptr %part
}

; Threads: the owner and the workers.
define internal i64 @threads(ptr %shared) nounwind {
  %workers.at = getelementptr %shared, ptr %shared, i32 0, i32 3
  %workers = load atomic i32, ptr %workers.at monotonic, align 8
  %threads = add i32 %workers, 1
  %wide = zext i32 %threads to i64
  ret i64 %wide
}

; Whether the part is the caller's from now on.
define internal i1 @claim(ptr %shared, ptr %part, i64 %generation) nounwind {
  %before = load atomic i64, ptr %part acquire, align 8
  %ticket = load atomic i64, ptr %shared acquire, align 8
  %current = call i64 @generation(i64 %ticket)
  %valid = icmp eq i64 %current, %generation
  %free = icmp ne i64 %before, %generation
  %mine = and i1 %valid, %free
  br i1 %mine, label %try, label %no
try:
  %exchange = cmpxchg ptr %part, i64 %before, i64 %generation acq_rel acquire
  %claimed = extractvalue { i64, i1 } %exchange, 1
  ret i1 %claimed
no:
  ret i1 false
}

; Runs part %number and says that it is done.
define internal void @run(ptr %pool, ptr %part, i64 %number, i64 %generation) nounwind {
  %shared = getelementptr i8, ptr %pool, i64 $ticket
  %sleeping = getelementptr i8, ptr %pool, i64 $sleepers
  %task.at = getelementptr %shared, ptr %shared, i32 0, i32 1
  %context.at = getelementptr %shared, ptr %shared, i32 0, i32 2
  %task = load atomic ptr, ptr %task.at monotonic, align 8
  %context = load atomic ptr, ptr %context.at monotonic, align 8
  call void %task(ptr %context, i64 %number)
  %done.at = getelementptr %part, ptr %part, i32 0, i32 2
  atomicrmw xchg ptr %done.at, i64 %generation seq_cst
  %waiting.at = getelementptr %sleeping, ptr %sleeping, i32 0, i32 1
  %waiting = load atomic i32, ptr %waiting.at seq_cst, align 4
  %sleeps = icmp ne i32 %waiting, 0
  br i1 %sleeps, label %notify, label %end
notify:
  call void @wake(ptr %done.at, i32 1)
  br label %end
end:
  ret void
}

; Worker %number, from 1: runs its parts for ever.
define void @pool_work(ptr %pool, i64 %number) nounwind {
entry:
  %shared = getelementptr i8, ptr %pool, i64 $ticket
  %sleepers.at = getelementptr i8, ptr %pool, i64 $sleepers
  br label %look
look:
  %idle = phi i32 [ 0, %entry ], [ 0, %parts ], [ %longer, %rest ], [ 0, %rise ]
  %seen = phi i64 [ 0, %entry ], [ %generation, %parts ], [ %seen, %rest ], [ %seen, %rise ]
  %ticket = load atomic i64, ptr %shared acquire, align 8
  %generation = call i64 @generation(i64 %ticket)
  %new = icmp ne i64 %generation, %seen
  br i1 %new, label %begin, label %rest

begin:
  %count = and i64 %ticket, $most_parts
  %threads = call i64 @threads(ptr %shared)
  br label %parts
parts:
  %at = phi i64 [ %number, %begin ], [ %next, %following ]
  %more = icmp ult i64 %at, %count
  br i1 %more, label %try, label %look
try:
  %part = call ptr @part(ptr %pool, i64 %at)
  %mine = call i1 @claim(ptr %shared, ptr %part, i64 %generation)
  br i1 %mine, label %take, label %following
take:
  call void @run(ptr %pool, ptr %part, i64 %at, i64 %generation)
  br label %following
following:
  %next = add i64 %at, %threads
  br label %parts

rest:
  $pause
  %longer = add i32 %idle, 1
  %tired = icmp uge i32 %longer, $pauses
  br i1 %tired, label %lie, label %look
lie:
  atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  %last = load atomic i64, ptr %shared seq_cst, align 8
  %latest = call i64 @generation(i64 %last)
  %same = icmp eq i64 %latest, %seen
  br i1 %same, label %nap, label %rise
nap:
  %word = trunc i64 %last to i32
  call void @sleep(ptr %shared, i32 %word)
  br label %rise
rise:
  atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %look
}

; Returns when the part is done, which the caller does itself if nobody has begun it.
define internal void @finish(ptr %pool, i64 %number, i64 %generation) nounwind {
entry:
  %shared = getelementptr i8, ptr %pool, i64 $ticket
  %sleeping = getelementptr i8, ptr %pool, i64 $sleepers
  %waiting.at = getelementptr %sleeping, ptr %sleeping, i32 0, i32 1
  %part = call ptr @part(ptr %pool, i64 %number)
  %done.at = getelementptr %part, ptr %part, i32 0, i32 2
  br label %wait
wait:
  %idle = phi i32 [ 0, %entry ], [ %longer, %patient ], [ %longer, %try ]
  %last = load atomic i64, ptr %done.at acquire, align 8
  %done = icmp eq i64 %last, %generation
  br i1 %done, label %end, label %rest
rest:
  $pause
  %longer = add i32 %idle, 1
  %late = icmp eq i32 %longer, $patience
  br i1 %late, label %try, label %patient
try:
  %mine = call i1 @claim(ptr %shared, ptr %part, i64 %generation)
  br i1 %mine, label %take, label %wait
take:
  call void @run(ptr %pool, ptr %part, i64 %number, i64 %generation)
  br label %end
patient:
  %tired = icmp uge i32 %longer, $pauses
  br i1 %tired, label %lie, label %wait
lie:
  store atomic i32 1, ptr %waiting.at seq_cst, align 4
  br label %nap
nap:
  %still = load atomic i64, ptr %done.at seq_cst, align 8
  %over = icmp eq i64 %still, %generation
  br i1 %over, label %rise, label %sleep
sleep:
  %word = trunc i64 %still to i32
  call void @sleep(ptr %done.at, i32 %word)
  br label %nap
rise:
  store atomic i32 0, ptr %waiting.at monotonic, align 4
  br label %end
end:
  ret void
}

; Runs parts %first, %first + %step and so on below %count.
define internal void @alone(ptr %task, ptr %context, i64 %first, i64 %step, i64 %count) nounwind {
entry:
  br label %look
look:
  %part = phi i64 [ %first, %entry ], [ %next, %run ]
  %more = icmp ult i64 %part, %count
  br i1 %more, label %run, label %end
run:
  call void %task(ptr %context, i64 %part)
  %next = add i64 %part, %step
  br label %look
end:
  ret void
}

define void @pool_parallel_for(ptr %pool, ptr %task, ptr %context, i64 %count) nounwind {
entry:
  %exchange = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %exchange, 1
  br i1 %mine, label %publish, label %busy
busy:
  call void @alone(ptr %task, ptr %context, i64 0, i64 1, i64 %count)
  ret void

publish:
  %shared = getelementptr i8, ptr %pool, i64 $ticket
  %task.at = getelementptr %shared, ptr %shared, i32 0, i32 1
  %context.at = getelementptr %shared, ptr %shared, i32 0, i32 2
  %sleepers.at = getelementptr i8, ptr %pool, i64 $sleepers
  %room.at = getelementptr %shared, ptr %shared, i32 0, i32 4
  %room = load atomic i32, ptr %room.at monotonic, align 4
  %most = zext i32 %room to i64
  %few = icmp ult i64 %count, %most
  %handed = select i1 %few, i64 %count, i64 %most
  store atomic ptr %task, ptr %task.at monotonic, align 8
  store atomic ptr %context, ptr %context.at monotonic, align 8
  %old = load atomic i64, ptr %shared monotonic, align 8
  %before = call i64 @generation(i64 %old)
  %following = add i64 %before, 1
  %raised = shl i64 %following, 16
  %ticket = or i64 %raised, %handed
  atomicrmw xchg ptr %shared, i64 %ticket seq_cst
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %rouse, label %work
rouse:
  call void @wake(ptr %shared, i32 2147483647)
  br label %work

work:
  %generation = call i64 @generation(i64 %ticket)
  %threads = call i64 @threads(ptr %shared)
  call void @alone(ptr %task, ptr %context, i64 0, i64 %threads, i64 %handed)
  call void @alone(ptr %task, ptr %context, i64 %handed, i64 1, i64 %count)
  br label %parts
parts:
  %at = phi i64 [ 0, %work ], [ %next, %skip ]
  %more = icmp ult i64 %at, %handed
  br i1 %more, label %whose, label %release
whose:
  %thread = urem i64 %at, %threads
  %own = icmp eq i64 %thread, 0
  br i1 %own, label %skip, label %other
other:
  call void @finish(ptr %pool, i64 %at, i64 %generation)
  br label %skip
skip:
  %next = add i64 %at, 1
  br label %parts
release:
  store atomic i32 0, ptr %pool release, align 4
  ret void
}
""")


def pool_bytes(parts: int) -> int:
    """What a pool with room for ``parts`` parts needs."""
    return _PARTS + 2 * BLOCK * parts


def supports(architecture: Architecture) -> bool:
    """Whether there is such code."""
    return architecture.name in _MACHINES


def pool_code(architecture: Architecture, syscall: int) -> str:
    """LLVM assembly; ``syscall`` is the address of the C library's function of that name."""
    numbers = {
        "ticket": TICKET,
        "sleepers": _SLEEPERS,
        "parts": _PARTS,
        "rest": BLOCK - 8,
        "most_parts": MOST_PARTS,
        "pauses": PAUSES,
        "patience": PATIENCE,
    }
    machine = _MACHINES[architecture.name]
    return _CODE.substitute(machine, **numbers, triple=architecture.triple, syscall=syscall)
