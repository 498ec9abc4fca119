"""Makes a control group, puts processes into it, and attaches a BPF program to it that looks at every
packet and lets it pass: bpf(2) by number, for want of a library.

Usage: cgroup_filter.py make NAME | take NAME PID... | attach NAME | remove NAME
"""
import ctypes
import os
import platform
import struct
import sys
import time

BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
PROG_LOAD, PROG_ATTACH = 5, 8
CGROUP_SKB, INGRESS = 8, 0

roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
root = next(one for one in roots if os.path.exists(one + "/cgroup.controllers"))
command, name = sys.argv[1:3]
folder = f"{root}/{name}"
libc = ctypes.CDLL(None, use_errno=True)


def bpf(number, attributes):
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    done = libc.syscall(BPF, number, buffer, len(attributes))
    if done < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return done


if command == "make":
    os.mkdir(folder)
elif command == "take":
    for pid in sys.argv[3:]:
        with open(f"{folder}/cgroup.procs", "w") as file:
            file.write(pid)
elif command == "attach":
    # r0 = 1; exit
    instructions = ctypes.create_string_buffer(struct.pack("<QQ", 0x1000000B7, 0x95), 16)
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    addresses = ctypes.addressof(instructions), ctypes.addressof(licence)
    program = bpf(PROG_LOAD, struct.pack("IIQQ", CGROUP_SKB, 2, *addresses))
    group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    bpf(PROG_ATTACH, struct.pack("IIII", group, program, INGRESS, 0))
elif command == "remove":
    # Processes that have just ended may be counted for a moment more.
    for _ in range(500):
        try:
            os.rmdir(folder)
            break
        except OSError:
            time.sleep(0.01)
