# SPDX-License-Identifier: BSD-3-Clause
"""The table of results of matrix.py: counts for each operation and role, path MTU, loss and size; the error cases with
what both sides saw; what differs from Linux against Linux, and why."""
import collections
import re

import matrix

FACTOR_NAMES = ["operation", "path MTU", "size", "loss, %", "IP"]


class Counts(collections.Counter):
    def cell(self):
        if not sum(self.values()):
            return "—"
        words = [str(self["ok"])] if self["ok"] or not self["unsupported"] else []
        if self["failed"]:
            words.append(f"{self['failed']} **failed**")
        if self["unsupported"]:
            words.append(f"{self['unsupported']} not supported")
        if self["not-reached"]:
            words.append(f"{self['not-reached']} not reached")
        return ", ".join(words)


Result = collections.namedtuple("Result", "verdict requester responder wrong build")


def read(path):
    """Of a case that was played again, the last result."""
    results = {}
    for line in path.read_text().split("\n"):
        if line:
            name, verdict, requester, responder, wrong, _, build = line.split("\t")
            results[name] = Result(verdict, requester, responder, wrong, build)
    return results


def stopped(path):
    """Cases with loss in which Linux's requester did not come to an end although nothing was wrong: README.md says why."""
    return {name for name, r in read(path).items()
            if r.verdict == "failed" and "loss0" not in name and name.endswith("rocemu-responds")
            and r.wrong.startswith("requester should have seen:") and ";" not in r.wrong
            and re.fullmatch(r"([0-9]+\*ok:\S+ )*qp=RTS", r.requester)}


def played_again(path):
    rows = [line.split("\t")[:2] for line in path.read_text().split("\n") if line]
    return sorted({name for name, verdict in rows if verdict == "failed"} - {n for n, r in read(path).items() if r.verdict == "failed"})


def builds_of(results):
    counts = collections.Counter(r.build for r in results)
    if len(counts) == 1:
        return "All were played with one build of rocemu."
    return "Played with several builds of rocemu, the last results of each case: " + ", ".join(
        f"{n} with `{build}`" for build, n in counts.items()) + "."


def table(head, rows):
    out = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return out + ["| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows] + [""]


def required(row):
    return row[0] in matrix.REQUIRED_OPS and row[4] in matrix.REQUIRED_IPS


def plain_tables(cases, results):
    out = []
    for column, values in [(0, matrix.OPS), (1, matrix.MTUS), (2, sorted(matrix.SIZES + [8])), (3, matrix.LOSSES), (4, matrix.IPS)]:
        counts = collections.defaultdict(Counts)
        for name, _, row, fault in cases:
            if fault == "none" and name in results:
                counts[row[column], row[5]][results[name].verdict] += 1
        rows = [[f"`{v}`" if column == 0 else v, *(counts[v, role].cell() for role in matrix.ROLES)] for v in values]
        out += table([FACTOR_NAMES[column], "rocemu is requester", "rocemu is responder"], rows)
    return out


def fault_table(cases, results, reference, exceptions):
    rows = []
    for name, key, row, fault in cases:
        if fault == "none" or name not in results:
            continue
        verdict, requester, responder, *_ = results[name]
        same = "yes" if f"{key} {row[5]}" not in exceptions else "no, see below"
        if verdict != "ok":
            same = "**failed**" if verdict == "failed" else verdict
        rows.append([f"`{key}`", row[4], row[5].split("-")[1], f"`{requester}`", f"`{responder}`", same])
    return table(["operation/fault", "IP", "rocemu", "requester saw", "responder saw", "as Linux against Linux"], rows)


def write(path, kernel, out):
    results = read(path)
    reference, exceptions = matrix.load(matrix.REFERENCE), matrix.load(matrix.EXCEPTIONS)
    full = bool(results.keys() - {case[0] for case in matrix.all_cases(False)})
    cases = list(matrix.all_cases(full))
    total, problems = Counts(), []
    for name, _, row, fault in cases:
        if name not in results:
            total["not-reached"] += 1
            continue
        verdict, requester, responder, wrong, _ = results[name]
        total[verdict] += 1
        if verdict == "failed" or (verdict == "unsupported" and required(row)):
            problems.append(f"{name}: {verdict}: requester {requester}; responder {responder}; {wrong}")
    text = ["# Interoperation with Linux", "",
            f"Written by tests/interop/matrix.sh ({'all cases' if full else 'the subset for every change'}); do not edit.",
            f"The peer is {kernel}, with its rdma_rxe. {sum(total.values())} cases: {total.cell()}.",
            builds_of(results[case[0]] for case in cases if case[0] in results),
            *(f"Played again, as Linux's requester had stopped (tests/interop/README.md): `{name}`." for name in played_again(path)), "",
            "## Counts", "", *plain_tables(cases, results),
            "## Error cases", "",
            "The second of three messages has the fault; each line shows completions in order, state of the queue pair and",
            "asynchronous events (`ev=`).", "", *fault_table(cases, results, reference, exceptions),
            "## Where the outcome is not that of Linux against Linux", ""]
    # Keys that share their reason stand together.
    reasons = collections.defaultdict(list)
    for key, columns in exceptions.items():
        reasons[columns[2]].append("`{}` ({})".format(*key.split(" rocemu-")))
    text += [f"- {', '.join(keys)}: {reason}" for reason, keys in reasons.items()]
    if str(out) != "/dev/null":
        # What run.sh wrote behind ours stays.
        old = out.read_text().partition("\n## Programs of librdmacm")[1:] if out.exists() else ()
        out.write_text("\n".join(text) + "\n" + "".join(old))
    for problem in problems:
        print(problem)
    print(f"{sum(total.values())} cases: {total.cell()}")
    return 1 if problems or not total["ok"] or (full and total["not-reached"]) else 0
