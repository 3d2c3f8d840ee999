#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The cases of the interoperation matrix (peer/case.h says what a case is).

matrix.py reference                    cases for Linux against Linux: each operation and each fault once
matrix.py record RESULTS               writes reference.tsv from their results
matrix.py cases [--full] [RESULTS]     cases for rocemu against Linux, both roles; else a pairwise subset and all faults;
                                       without those that are ok in these results
matrix.py report RESULTS KERNEL OUT    writes the table of results; exit code 1 if it is not green
"""
import functools
import itertools
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE / "reference.tsv"
EXCEPTIONS = HERE / "exceptions.tsv"

OPS = ["send", "send_imm", "send_inv", "write", "write_imm", "read", "cas", "fetch_add", "srq_send", "uc_send",
       "uc_write", "uc_write_imm", "ud_send", "ud_send_imm"]
ATOMIC = {"cas", "fetch_add"}
MTUS = [256, 512, 1024, 2048, 4096]
SIZES = [0, 1, 3, 1023, 1025, 4097, 1 << 20]
LOSSES = [0, 1, 15]
IPS = [4, 6]
ROLES = ["rocemu-requests", "rocemu-responds"]
FACTORS = [OPS, MTUS, SIZES + [8], LOSSES, IPS, ROLES]
# What a device must be able to do: "unsupported" is a failure here.
REQUIRED_OPS = set(OPS)
REQUIRED_IPS = {4, 6}

# Only rocemu's requester is asked: these never leave the device, and when Linux's flushes what was before is open.
LOCAL_FAULTS = {"lkey", "unaligned"}
FAULTS = [
    *((op, "rkey") for op in ("write", "read", "fetch_add")),
    *((op, "other_pd") for op in ("write_imm", "read", "cas")),
    *((op, "bounds") for op in ("write", "read", "fetch_add")),
    *((op, "region_access") for op in ("write", "read", "fetch_add")),
    *((op, "qp_access") for op in ("write", "read", "fetch_add")),
    *((op, "short_receive") for op in ("send",)),
    *((op, "lkey") for op in ("send", "write", "cas")),
    ("cas", "unaligned"),
    ("send", "silent"), ("read", "silent"),
    *(("send", f"no_receive/{n}") for n in range(8)),
]


def valid(op, mtu, size, loss, ip, role, full):
    if (size == 8) != (op in ATOMIC):
        return False
    if op.startswith("ud_") and size > min(mtu, 1025):
        return False
    return full or loss != 15 or size <= 8192


def pairwise(rows):
    """The fewest rows we find that hold every pair of values that any row holds. Always the same ones."""
    choice = random.Random(3)
    pairs = lambda row: set(itertools.combinations(enumerate(row), 2))  # noqa: E731
    left = set().union(*(pairs(r) for r in rows))
    by_op = {}
    for r in rows:
        by_op.setdefault(r[0], []).append(r)
    chosen = []
    while left:
        best = max((r for op in OPS for r in choice.sample(by_op[op], min(60, len(by_op[op])))),
                   key=lambda r: len(pairs(r) & left))
        if not pairs(best) & left:
            best = next(r for r in rows if pairs(r) & left)
        chosen.append(best)
        left -= pairs(best)
    return sorted(chosen, key=lambda r: (OPS.index(r[0]), r[1:]))


def load(path):
    table = {}
    for line in path.read_text().split("\n"):
        if line and not line.startswith("#"):
            key, *columns = line.split("\t")
            table[key] = columns
    return table


def timeout_of(role, fault):
    """The queue pairs' transport timeout. rocemu finds losses without it and gives up when it has passed eight times:
    0.5 s, since a guest on a busy machine is silent for long. Linux's requester never gives up with 7 retries, and has
    nothing else for the loss of a NAK: 67 ms."""
    if fault == "silent":
        return 8
    return 17 if role == "rocemu-requests" else 14


def message_count(size, loss, fault):
    """As peer/case.cpp has it."""
    if fault != "none":
        return 3
    return 8 if size <= 65536 else 1 if loss > 1 else 2


def line(name, op, mtu, size, loss, ip, role, fault="none", wants=None):
    fault, _, rnr = fault.partition("/")
    words = [f"name={name}", f"op={op}", f"mtu={mtu}", f"size={size}", f"loss={loss}", f"ip={ip}",
             "requester=" + ("server" if role == "rocemu-responds" else "driver"), f"fault={fault}"]
    if rnr:
        words.append(f"rnr_retry={rnr}")
    words.append(f"timeout={timeout_of(role, fault)}")
    # Linux drops the repetition of a READ of no bytes unless its key is 0 (exceptions.tsv); any is good (IBTA C9-88).
    if op == "read" and size == 0 and loss and role == "rocemu-requests":
        words.append("any_key=0")
    if wants:
        words += ["want_requester=" + wants[0].replace(" ", "~"), "want_responder=" + wants[1].replace(" ", "~")]
    return " ".join(words)


def messages(outcome, count):
    return outcome.replace("8*", f"{count}*")


def wants_of(key, role, reference, exceptions):
    if f"{key} {role}" in exceptions:
        return exceptions[f"{key} {role}"][:2]
    return reference[key]


@functools.cache
def plain_cases(full):
    rows = [r for r in itertools.product(*FACTORS) if valid(*r, full)]
    return rows if full else pairwise(rows)


def all_cases(full):
    """(name, key, row, fault) of each case."""
    for row in plain_cases(full):
        op, mtu, size, loss, ip, role = row
        yield f"{op}.mtu{mtu}.size{size}.loss{loss}.ip{ip}.{role}", op, row, "none"
    for at, ((op, fault), role, ip) in enumerate(itertools.product(FAULTS, ROLES, IPS)):
        if fault in LOCAL_FAULTS and role == "rocemu-responds":
            continue
        # The subset: one IP version for each, in turn.
        if not full and (at // 4 + at // 2) % 2 != at % 2:
            continue
        row = (op, 1024, 8 if op in ATOMIC else 512, 0, ip, role)
        yield f"{op}.{fault.replace('/', '-')}.ip{ip}.{role}", f"{op}/{fault}", row, fault


def reference_cases():
    for op in OPS:
        yield line(op, op, 1024, 8 if op in ATOMIC else 512, 0, 4, "rocemu-requests")
    for op, fault in FAULTS:
        yield line(f"{op}/{fault}", op, 1024, 8 if op in ATOMIC else 512, 0, 4, "rocemu-requests", fault)


def record(results):
    head = "\n".join(line for line in REFERENCE.read_text().split("\n") if line.startswith("#")) if REFERENCE.exists() else ""
    out = [head] if head else []
    for row in results.read_text().split("\n"):
        if not row:
            continue
        name, verdict, requester, responder, wrong, *_ = row.split("\t")
        if verdict != "ok" or wrong:
            sys.exit(f"{name}: {verdict} {wrong}")
        out.append("\t".join([name, requester, responder]))
    REFERENCE.write_text("\n".join(out) + "\n")


def print_cases(full, done):
    reference, exceptions = load(REFERENCE), load(EXCEPTIONS)
    cases = [case for case in all_cases(full) if case[0] not in done]
    if full:
        # Mixed: long and short cases run beside each other.
        random.Random(7).shuffle(cases)
    for name, key, row, fault in cases:
        wants = wants_of(key, row[5], reference, exceptions)
        count = message_count(row[2], row[3], fault)
        print(line(name, *row, fault, [messages(w, count) for w in wants]))


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "reference":
        print("\n".join(reference_cases()))
    elif command == "record" and len(sys.argv) == 3:
        record(pathlib.Path(sys.argv[2]))
    elif command == "cases":
        rest = [a for a in sys.argv[2:] if a != "--full"]
        import matrix_report
        done = {n for n, r in matrix_report.read(pathlib.Path(rest[0])).items() if r.verdict == "ok"} if rest else set()
        print_cases("--full" in sys.argv[2:], done)
    elif command == "again" and len(sys.argv) == 4:
        import matrix_report
        stopped = matrix_report.stopped(pathlib.Path(sys.argv[2]))
        for case in pathlib.Path(sys.argv[3]).read_text().splitlines():
            if case.split()[0].removeprefix("name=") in stopped:
                print(case)
    elif command == "report" and len(sys.argv) == 5:
        import matrix_report
        sys.exit(matrix_report.write(pathlib.Path(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
