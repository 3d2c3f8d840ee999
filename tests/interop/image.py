#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes what a guest boots from, out of Debian packages.

image.py userland OUT    OUT/userland.cpio.gz: shell, ip, rdma, ibverbs and perftest programs of the packages that
                         are installed here (scripts/packages.txt, groups run and interop), with their libraries
image.py kernel OUT      OUT/6.12/{vmlinuz,modules.cpio.gz,release}: Debian's kernel package, downloaded, with the
                         modules that the guest loads, in order
image.py overlay FILE [PROGRAM...]   our init and its helpers (guest/), which replace those of any image it is
                         appended to, and these programs
"""
import gzip
import io
import lzma
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = """/bin/bash /bin/ip /usr/bin/rdma /sbin/tc /usr/bin/ibv_devices /usr/bin/ibv_devinfo
/usr/bin/ibv_rc_pingpong /usr/bin/ibv_uc_pingpong /usr/bin/ibv_ud_pingpong /usr/bin/ibv_srq_pingpong
/usr/bin/ib_send_bw /usr/bin/ib_write_bw /usr/bin/ib_read_bw /usr/bin/ib_send_lat /usr/bin/ib_write_lat
/usr/bin/ib_read_lat /usr/bin/ib_atomic_bw /usr/bin/rping /usr/bin/ucmatose /usr/bin/udaddy /usr/bin/mckey
/usr/bin/rstream /usr/bin/riostream /usr/bin/rdma_client /usr/bin/rdma_server""".split()
UNWINDER = "/lib/x86_64-linux-gnu/libgcc_s.so.1"  # opened by pthread_exit and pthread_cancel: ldd does not tell
PROVIDER = "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"
# In the order of loading; what each depends on is put before it.
MODULES = """virtio_pci virtio_net crc32_pclmul crc32_generic crc32c_generic rdma_rxe ib_uverbs rdma_ucm
8021q sch_netem""".split()
KERNELS = ["linux-image-6.12-amd64", "linux-image-amd64"]


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


class Cpio:
    """A newc archive, everything owned by root, no times: the same input gives the same bytes."""

    def __init__(self):
        self.out = io.BytesIO()
        self.count = 0
        self.made = set()

    def entry(self, name, mode, data=b""):
        self.count += 1
        encoded = name.encode() + b"\0"
        fields = (self.count, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % f for f in fields) + encoded
        self.out.write(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))

    def folder(self, name):
        parts = name.strip("/").split("/")
        for i in range(1, len(parts) + 1):
            path = "/".join(parts[:i])
            if path and path not in self.made:
                self.made.add(path)
                self.entry(path, stat.S_IFDIR | 0o755)

    def file(self, name, data, mode=0o755):
        name = name.strip("/")
        if name in self.made:
            return
        self.folder(os.path.dirname(name))
        self.made.add(name)
        self.entry(name, stat.S_IFREG | mode, data)

    def link(self, name, target):
        name = name.strip("/")
        if name not in self.made:
            self.folder(os.path.dirname(name))
            self.made.add(name)
            self.entry(name, stat.S_IFLNK | 0o777, target.encode())

    def bytes(self):
        self.entry("TRAILER!!!", 0)
        return self.out.getvalue()


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    temporary.rename(path)


def libraries(path):
    """Every shared object that this file needs, with the name the loader looks for."""
    for line in run("ldd", path).splitlines():
        match = re.search(r"(?:=> )?(/\S+) \(0x", line)
        if match:
            yield match.group(1)


def userland(out):
    image = Cpio()
    for name in ("bin", "sbin", "usr/bin", "lib", "lib64", "proc", "sys", "dev", "tmp", "run", "etc"):
        image.folder(name)
    image.entry("dev/console", stat.S_IFCHR | 0o600)
    busybox = shutil.which("busybox") or sys.exit("image.py: busybox is missing")
    image.file("bin/busybox", pathlib.Path(busybox).read_bytes())
    missing = []
    for program in [*PROGRAMS, PROVIDER]:
        real = program if os.path.exists(program) else shutil.which(os.path.basename(program))
        if not real:
            missing.append(program)
            continue
        image.file(program, pathlib.Path(real).read_bytes())
        for library in libraries(real):
            image.file(library, pathlib.Path(library).read_bytes())
    image.file(UNWINDER, pathlib.Path(UNWINDER).read_bytes())
    if missing:
        print("image.py: not installed here, so not in the guest:", " ".join(missing), file=sys.stderr)
    for applet in run(busybox, "--list").split():
        image.link("bin/" + applet, "busybox")
    image.file("etc/libibverbs.d/rxe.driver", b"driver rxe\n", 0o644)
    image.file("etc/passwd", b"root:x:0:0:root:/:/bin/sh\n", 0o644)
    image.file("etc/hosts", b"127.0.0.1 localhost\n", 0o644)
    write(out / "userland.cpio.gz", gzip.compress(image.bytes(), 6, mtime=0))


def kernel_package():
    for meta in KERNELS:
        text = subprocess.run(["apt-cache", "depends", meta], capture_output=True, text=True).stdout
        match = re.search(r"Depends: (linux-image-\S+)", text)
        if match:
            return match.group(1)
    return None


def fetch_kernel(folder):
    """Downloads the kernel package; its modules and image are unpacked in folder."""
    for fresh in (False, True):
        if fresh:  # apt's lists were empty, or name a version that is no longer there
            subprocess.run(["apt-get", "-qq", "update"], check=True)
        name = kernel_package()
        if name and subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name], cwd=folder,
                                   stdout=subprocess.DEVNULL).returncode == 0:
            break
    else:
        sys.exit("image.py: no kernel package to be had")
    package = next(pathlib.Path(folder).glob("*.deb"))
    run("dpkg-deb", "-x", str(package), str(folder))


def module_files(tree):
    found = {}
    for path in tree.rglob("*.ko*"):
        found[path.name.split(".")[0].replace("-", "_")] = path
    return found


def ordered(names, found):
    """(file name, bytes) of the modules and of all they depend on, each after its dependencies."""
    done, result = set(), []

    def visit(name):
        if name in done or name not in found:
            return
        done.add(name)
        path = found[name]
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        for depends in re.findall(rb"\0depends=([^\0]*)\0", b"\0" + data):
            for other in filter(None, depends.decode().split(",")):
                visit(other.replace("-", "_"))
        result.append((name + ".ko", data))

    for name in names:
        visit(name)
    return result


def kernel(out):
    with tempfile.TemporaryDirectory(dir=out) as folder:
        fetch_kernel(folder)
        tree = pathlib.Path(folder)
        release = next((tree / "lib/modules").iterdir())
        image = Cpio()
        modules = ordered(MODULES, module_files(release / "kernel"))
        for name, data in modules:
            image.file("rocemu/ko/" + name, data, 0o644)
        image.file("rocemu/modules", "".join(n + "\n" for n, _ in modules).encode(), 0o644)
        write(out / "6.12/modules.cpio.gz", gzip.compress(image.bytes(), 6, mtime=0))
        write(out / "6.12/release", release.name.encode() + b"\n")
        write(out / "6.12/vmlinuz", next((tree / "boot").glob("vmlinuz-*")).read_bytes())


def overlay(target, programs):
    image = Cpio()
    with tempfile.TemporaryDirectory() as folder:
        daemon, clock = folder + "/guestd", folder + "/libtscclock.so"
        run("gcc", "-O2", "-Wall", "-Werror", "-static", "-o", daemon, str(HERE / "guest/guestd.c"))
        run("gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", clock, str(HERE / "guest/tscclock.c"))
        image.file("init", (HERE / "guest/init").read_bytes())
        image.file("rocemu/bin/guestd", pathlib.Path(daemon).read_bytes())
        image.file("rocemu/libtscclock.so", pathlib.Path(clock).read_bytes())
        for helper in ("gid-index", "wait-listen"):
            image.file("rocemu/bin/" + helper, (HERE / "guest" / helper).read_bytes())
        for program in programs:
            image.file("rocemu/bin/" + program.name, program.read_bytes())
    write(target, gzip.compress(image.bytes(), 6, mtime=0))


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("userland", "kernel", "overlay"):
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[2]).resolve()
    if sys.argv[1] == "overlay":
        overlay(target, [pathlib.Path(p) for p in sys.argv[3:]])
        return
    target.mkdir(parents=True, exist_ok=True)
    {"userland": userland, "kernel": kernel}[sys.argv[1]](target)


if __name__ == "__main__":
    main()
