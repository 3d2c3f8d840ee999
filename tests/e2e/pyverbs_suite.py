#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's pyverbs tests against the list of what is expected of them.

pyverbs_suite.py modules                                 the modules that concern us (all but those of other vendors)
pyverbs_suite.py unpack DIR                              the suite, unpacked
pyverbs_suite.py run DIR MODULE RESULTS -- COMMAND...    runs one module by COMMAND, appends to RESULTS, compares
pyverbs_suite.py count RESULTS PASSED                    sums up; fails if fewer passed

pyverbs.expected has a line for each test: `pass NAME`, `skip NAME REASON` or `fail NAME REASON`. A test that is worse than
its line fails the run; one that is better is named, so that the list follows. ROCEMU_UPDATE=1 writes what was seen into
the list (reasons of tests that fail are kept, or the error is taken). Where the suite runs as root, in a network namespace
and with huge pages (ROCEMU_PYVERBS=root), the lines of pyverbs-root.expected come before those, and all its modules run.
ROCEMU_GID is the GID index, 3 if unset.
"""
import gzip
import os
import pathlib
import re
import subprocess
import sys

SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
ROOT = os.environ.get("ROCEMU_PYVERBS") == "root"
COMMON = pathlib.Path(__file__).with_name("pyverbs.expected")
EXPECTED = COMMON.with_name("pyverbs-root.expected") if ROOT else COMMON
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
# Of other vendors' devices, of GPUs, and on the fabric what wants a kernel interface.
FOREIGN = re.compile(r"^test_(mlx5|efa|cuda)" if ROOT else r"^test_(mlx5|efa|cuda|rdmacm)")
RESULT = re.compile(r"^(test_\w+) \(tests\.([\w.]+)\)")
RANK = {"fail": 0, "skip": 1, "pass": 2}


def modules():
    names = sorted({p.name.removesuffix(".gz").removesuffix(".py") for p in SUITE.glob("test_*.py*")})
    return [n for n in names if not FOREIGN.match(n)]


def unpack(target):
    target = pathlib.Path(target)
    target.mkdir()
    for path in SUITE.iterdir():
        name = path.name.removesuffix(".gz")
        if name.startswith("test_") and FOREIGN.match(name):
            continue
        data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        (target / name).write_bytes(data)


def lines_of(path):
    table = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if not line or line.startswith("#"):
            continue
        state, name, *reason = line.split(maxsplit=2)
        table[name] = (state, reason[0] if reason else "")
    return table


def expected():
    return {**lines_of(COMMON), **lines_of(EXPECTED)}


# Not every machine has some, or lets us take some.
def without_huge_pages(reason):
    return "uge pages" in reason and not (HUGE_PAGES.exists() and int(HUGE_PAGES.read_text()))


def parse(text):
    """Names and results of unittest's verbose output, where a test may print between its name and its result."""
    found, name = {}, None
    for line in text.splitlines():
        m = RESULT.match(line)
        if m:
            name = m.group(2) if m.group(2).endswith("." + m.group(1)) else f"{m.group(2)}.{m.group(1)}"
        m = re.search(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped (.*))$", line)
        if name is None or not m:
            continue
        word = m.group(1)
        if word == "ok":
            found[name] = ("pass", "")
        elif word.startswith("skipped"):
            found[name] = ("skip", m.group(2).strip("'\""))
        else:
            found[name] = ("fail", "")
        name = None
    # The last line of each traceback is the error.
    for m in re.finditer(r"^(?:ERROR|FAIL): (test_\w+) \(tests\.([\w.]+)\)\n.*?(?=^=====|^-----.*?\nRan |\Z)", text, re.M | re.S):
        name = m.group(2) if m.group(2).endswith("." + m.group(1)) else f"{m.group(2)}.{m.group(1)}"
        lines = [x for x in m.group(0).splitlines() if x and not x.startswith((" ", "-", "="))]
        found[name] = ("fail", lines[-1][:160] if lines else "")
    return found


def run(directory, module, results, command):
    known = {n: v for n, v in expected().items() if n.startswith(module + ".")}
    script = ["/usr/bin/python3", str(pathlib.Path(directory) / "run_tests.py"), "--dev", "rocemu0", "--port", "1",
              "--gid", os.environ.get("ROCEMU_GID", "3"), "-v", "tests." + module]
    try:
        done = subprocess.run(command + script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=110)
        text = done.stdout
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode() + "\nthe module took too long\n"
    seen = parse(text)
    with open(results, "a") as out:
        for name, (state, reason) in sorted(seen.items()):
            print(state, name, reason, file=out)
    worse = []
    for name, (state, reason) in sorted({**{n: ("fail", "not run") for n in known}, **seen}.items()):
        want = known.get(name, ("fail", ""))[0]
        if RANK[state] < RANK[want] and not without_huge_pages(reason):
            worse.append(name)
            print(f"worse: {name}: {state} {reason}, expected {want}")
        elif RANK[state] > RANK[want]:
            print(f"better: {name}: {state}, expected {want}: change {EXPECTED.name}")
    if os.environ.get("ROCEMU_UPDATE"):
        return update(seen)
    if worse or not seen:
        print(text)
        return 1
    return 0


def update(seen):
    table, known, common = lines_of(EXPECTED), expected(), lines_of(COMMON)
    for name, (state, reason) in seen.items():
        old = known.get(name, ("", ""))
        table[name] = (state, old[1] if old[0] == state and old[1] else reason)
        if ROOT and table[name] == common.get(name):
            del table[name]
    where = "as root, in a network namespace: what differs" if ROOT else "on the embedded fabric"
    head = f"# What the pyverbs suite does {where}: see pyverbs_suite.py.\n"
    EXPECTED.write_text(head + "".join(f"{s} {n} {r}".rstrip() + "\n" for n, (s, r) in sorted(table.items())))
    return 0


def count(results, least):
    states = [line.split()[0] for line in open(results)]
    print(", ".join(f"{states.count(s)} {s}" for s in ("pass", "skip", "fail")))
    return 0 if states.count("pass") >= int(least) else 1


def main(argv):
    if argv[0] == "modules":
        if not SUITE.is_dir():
            sys.exit("the test suite of rdma-core is not installed")
        try:
            import pyverbs.device  # noqa: F401
        except ImportError:
            sys.exit("python3-pyverbs is not installed")
        print("\n".join(modules()))
    elif argv[0] == "unpack":
        unpack(argv[1])
    elif argv[0] == "run":
        return run(argv[1], argv[2], argv[3], argv[5:])
    elif argv[0] == "count":
        return count(argv[1], argv[2])
    return 0


sys.exit(main(sys.argv[1:]))
