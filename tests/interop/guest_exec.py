#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""guest_exec.py ADDRESS SECONDS COMMAND: runs a shell command in a guest (guest/guestd.c), prints what it writes and
exits with its exit code; 124 when its time was over, 255 when the guest does not answer."""
import re
import socket
import sys

address, seconds, command = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
tail = b""
try:
    with socket.create_connection((address, 7000), timeout=10) as guest:
        guest.settimeout(seconds + 15)
        guest.sendall(b"%d %d\n" % (seconds, len(command)) + command)
        while True:
            data = guest.recv(65536)
            if not data:
                break
            # The last line is not the command's: hold back what may belong to it.
            tail += data
            sys.stdout.buffer.write(tail[:-20])
            sys.stdout.buffer.flush()
            tail = tail[-20:]
except OSError as error:
    print(f"guest {address}: {error}", file=sys.stderr)
    sys.exit(255)
match = re.search(rb"\n=exit (\d+)\n$", tail)
sys.stdout.buffer.write(tail[: match.start()] if match else tail)
sys.exit(int(match.group(1)) if match else 255)
