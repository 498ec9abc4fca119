#!/usr/bin/env python3
# Counts packets by their source, over libcalisto, with nothing but Python's own ctypes.
"""Counts the packets that come to an address, by who sent them. Needs libcalisto.so only.

  examples/packet_counter.py udp:10.0.0.2:9 --seconds 10
"""
import argparse
import collections
import ctypes
import ipaddress
import os
import sys
import time
from ctypes import c_char_p, c_uint8 as u8, c_uint16 as u16, c_uint32 as u32, c_uint64 as u64

BATCH = 64


class Options(ctypes.Structure):  # struct calisto_options of calisto.h
    _fields_ = [("socket", c_char_p), ("name", c_char_p), ("listen", ctypes.POINTER(c_char_p)),
                ("listen_count", u32), ("workers", u32), ("frames", u32), ("frame_bytes", u32),
                ("wait_ns", u64), ("reserved", u64 * 4)]


class Packet(ctypes.Structure):  # struct calisto_packet
    _fields_ = [("data", ctypes.c_void_p), ("len", u32), ("room", u32), ("received_at_ns", u64),
                ("flow_hash", u32), ("flow_group", u32), ("port", u16), ("l3_offset", u16),
                ("l4_offset", u16), ("checksum", u8), ("reserved", u8), ("handle", u64)]


def source(packet):  # bytes 12 to 15 of an IPv4 header, 8 to 23 of an IPv6 one
    ip = ctypes.string_at(packet.data, packet.len)[packet.l3_offset:]
    return ipaddress.ip_address(ip[8:24] if ip[0] >> 4 == 6 else ip[12:16])


def table(packets, sizes):
    print(f"{'source':<40}{'packets':>12}{'bytes':>14}")
    for address, count in packets.most_common(20):
        print(f"{str(address):<40}{count:>12}{sizes[address]:>14}")
    print(f"{'all':<40}{packets.total():>12}{sizes.total():>14}", flush=True)


def count_until(lib, worker, seconds, packets, sizes):
    batch = (Packet * BATCH)()
    begun = shown = time.monotonic()
    count = 0
    while count >= 0 and time.monotonic() - begun < seconds:
        count = lib.calisto_receive(worker, batch, BATCH)
        for packet in batch[:max(count, 0)]:
            packets[source(packet)] += 1
            sizes[source(packet)] += packet.len
        if count > 0:
            lib.calisto_done(worker, batch, count)
        elif count == 0:
            count = lib.calisto_wait(worker, u64(100_000_000))
        if time.monotonic() - shown >= 1:
            shown = time.monotonic()
            table(packets, sizes)
    return count


options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("listen", help="whose packets to count, such as udp:10.0.0.2:9")
options.add_argument("--seconds", type=float, default=float("inf"), help="then end by itself")
arguments = options.parse_args()
lib = ctypes.CDLL(os.environ.get("CALISTO_LIB", "libcalisto.so"))
lib.calisto_error.restype, lib.calisto_worker.restype = c_char_p, ctypes.c_void_p
app, packets, sizes = ctypes.c_void_p(), collections.Counter(), collections.Counter()
listen = (c_char_p * 1)(arguments.listen.encode())
asked = Options(name=b"packet-counter", listen=listen, listen_count=1)
if lib.calisto_attach(ctypes.byref(asked), ctypes.byref(app)) < 0:
    sys.exit("packet_counter: " + lib.calisto_error(None).decode())
try:
    worker = ctypes.c_void_p(lib.calisto_worker(app, 0))
    ended = count_until(lib, worker, arguments.seconds, packets, sizes) < 0
except KeyboardInterrupt:
    ended = False
table(packets, sizes)
sys.exit("packet_counter: " + lib.calisto_error(app).decode() if ended else 0)
