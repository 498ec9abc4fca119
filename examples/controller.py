#!/usr/bin/env python3
# An outside controller for calistod, in the standard library alone (docs/reference/admin-protocol.md).
"""Keeps the load of calistod's workers even, from outside.

It holds the lease of the owner table, so that the daemon's own policy moves nothing, counts what
each group sends, and once a second moves the busiest groups that fit from workers more than 10 %
above the mean to those below it. When it ends, the daemon's policy goes on from that table.

  controller.py --seconds 60
  controller.py --app web --socket /run/calisto/admin.sock
"""
import argparse, json, socket, sys, time

LEASE_MS = 2000
PERIOD_S = 1.0
TOLERANCE = 0.10
MOVES_AT_ONCE = 64


class Daemon:
    """One connection: a line for a line, or after `watch` a stream of them."""

    def __init__(self, path, app):
        self.app = {"app": app} if app else {}
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        try:
            connection.connect(path)
        except OSError as error:
            sys.exit(f"controller: no daemon answers at {path} ({error.strerror}): start one, or see --socket")
        self.lines = connection.makefile("rw", encoding="utf-8")

    def ask(self, command, **fields):
        self.lines.write(json.dumps({"v": 1, **self.app, "command": command, **fields}) + "\n")
        self.lines.flush()
        return self.answer()

    def answer(self):
        line = self.lines.readline()
        if not line.endswith("\n"):
            sys.exit("controller: the daemon has ended")
        return json.loads(line)


def rule(packets, owner, workers):
    """Moves after which no worker is more than the tolerance above the mean, if groups allow it."""
    load = {worker: sum(n for at, n in packets.items() if owner[at] == worker) for worker in workers}
    highest = sum(load.values()) / max(len(load), 1) * (1 + TOLERANCE)
    moves = []
    for group in sorted(packets, key=packets.get, reverse=True):
        source, count = owner[group], packets[group]
        if len(moves) < MOVES_AT_ONCE and load.get(source, 0) > highest:
            target = min(load, key=load.get)
            if load[target] + count < load[source]:
                load[source] -= count
                load[target] += count
                moves.append({"group": group, "from": source, "to": target})
    return moves


def control(watch, steer, end):
    packets, owner, asked, due, renew = {}, {}, 0, time.monotonic() + PERIOD_S, 0
    sample = watch.ask("watch", every_us=20_000, load=True)
    while (now := time.monotonic()) < end:
        if sample["reply"] == "error":
            sys.exit(f"controller: {sample['message']}")
        for part in sample.get("load", []):
            group = part["first"]
            for length, count, _, worker in part["runs"]:
                for at in range(group, group + length) if count else ():
                    packets[at], owner[at] = packets.get(at, 0) + count, worker
                group += length
        moves = []
        if now >= due and sample["settled"]:
            moves = rule(packets, owner, [worker["id"] for worker in sample["workers"]])
            packets, due = {}, now + PERIOD_S
        if moves or now >= renew:
            reply = steer.ask("plan", moves=moves, lease_ms=LEASE_MS)
            asked += len(moves) if reply["reply"] == "done" else 0
            if moves or reply["reply"] == "error":
                print(f"{len(moves)} moves: {reply.get('message', 'accepted')}; {asked} so far", flush=True)
            renew = now + LEASE_MS / 4000
        sample = watch.answer()
    steer.ask("plan", lease_ms=0)
    print(f"{asked} moves asked for; the daemon's policy has the table again")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--socket", default="/run/calisto/admin.sock", help="the daemon's admin socket")
    parser.add_argument("--app", help="steer this application's workers, not the daemon's own")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    args = parser.parse_args()
    try:
        control(Daemon(args.socket, args.app), Daemon(args.socket, args.app), time.monotonic() + args.seconds)
    except KeyboardInterrupt:
        print("stopped; the lease ends with the connection", file=sys.stderr)
    except (OSError, ValueError) as error:
        sys.exit(f"controller: the daemon does not answer: {error}")
