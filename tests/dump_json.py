#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the JSON that fiber_dump_as writes for tests/dump_program.c, whose path is the argument: it is valid, in UTF-8,
and tells what that program's fibers wait for, their frames, and their deadlock.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import unittest

FRAMES, GROUPED, JSON = 1, 2, 4


def run(flags):
    done = subprocess.run([PROGRAM, str(flags)], stdout=subprocess.PIPE, timeout=120, check=True)
    facts, _, dump = done.stdout.decode("utf-8").partition("\n")
    return json.loads(facts), dump


def no_duplicates(pairs):
    members = dict(pairs)
    assert len(members) == len(pairs), f"a member stands twice in {pairs}"
    return members


def read(flags):
    facts, dump = run(flags | JSON)
    assert dump.endswith("}\n") and dump.count("\n") == 1
    return facts, json.loads(dump, object_pairs_hook=no_duplicates)


class Dump(unittest.TestCase):
    def test_fibers(self):
        facts, dump = read(FRAMES)
        self.assertEqual(dump["pid"], facts["pid"])
        self.assertRegex(dump["fiberrt"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(dump["incomplete"], [])
        self.assertGreater(dump["now_ns"], 0)
        cords = {cord["id"]: cord for cord in dump["cords"]}
        self.assertEqual(len(cords), 4)
        self.assertIn("readers", [cord["name"] for cord in dump["cords"]])
        for cord in dump["cords"]:
            self.assertFalse(cord["ended"] or cord["closing"])
            self.assertGreater(cord["thread"], 0)
        self.assertEqual(sum(cord["fibers"] for cord in dump["cords"]), len(dump["fibers"]))
        fibers = {int(fiber["id"]): fiber for fiber in dump["fibers"]}
        self.assertEqual(len(fibers), len(dump["fibers"]))
        for fiber in dump["fibers"]:
            self.assertIn(fiber["cord"], cords)
            self.assertTrue(fiber["still"] or fiber["state"] == "running")

        sleeper = fibers[facts["sleeper"]]
        self.assertEqual(sleeper["name"], '"q\\ \x01\n \u20ac \ufffd\ufffd\ufffd')
        self.assertEqual(sleeper["wait"], "sleeps")
        self.assertLess(800e9, sleeper["wait_left_ns"])
        self.assertLess(sleeper["wait_left_ns"], 1000e9)
        self.assertEqual(sleeper["function_name"], "sleeps")
        self.assertEqual([frame["symbol"] for frame in sleeper["frames"]][-1:], ["sleeps"])

        joiner = fibers[facts["joiner"]]
        self.assertEqual(int(joiner["wait_fiber"]), facts["joined"])
        self.assertEqual(int(joiner["wait_object"]), facts["joined"])
        self.assertIsNone(joiner["wait_left_ns"])
        joined = fibers[facts["joined"]]
        self.assertEqual(joined["wait"], "waits for a lock")
        self.assertEqual(int(joined["wait_fiber"]), facts["locker"])
        self.assertEqual(int(joined["wait_object"]), facts["first"])
        child = fibers[facts["child"]]
        self.assertEqual(int(child["parent"]), facts["parent"])
        self.assertEqual(int(child["parent_scope"]), facts["scope"])
        self.assertTrue(fibers[facts["main"]]["main_flow"])
        self.assertEqual(fibers[facts["main"]]["state"], "running")
        self.assertIn("main", [frame["symbol"] for frame in fibers[facts["main"]]["frames"]])

        readers = [fiber for fiber in dump["fibers"] if fiber["name"] == "reader"]
        self.assertEqual(len(readers), facts["readers"])
        for reader in readers:
            self.assertEqual(reader["wait_fd"], facts["pipe"])
            self.assertRegex(reader["wait"], f"^waits for (read|poll of POLLIN) on descriptor {facts['pipe']}$")
            self.assertEqual(reader["state"], "waiting")
            self.assertTrue(reader["frames_complete"])
            self.assertEqual([frame["symbol"] for frame in reader["frames"]][-2:], ["read_request", "serve"])
            self.assertTrue(reader["stack_used"] <= reader["stack_touched"] <= reader["stack_size"])
            for frame in reader["frames"]:
                self.assertGreater(int(frame["pc"], 16), frame["offset"])
                self.assertTrue(frame["object"].startswith("/"))
                self.assertGreater(frame["object_offset"], 0)

        # A thread sleeps on the stack of the fiber that gave way last.
        self.assertGreaterEqual(sum(reader["stack_used"] > 0 for reader in readers), facts["readers"] - 1)

    def test_deadlocks(self):
        for flags in (0, FRAMES, GROUPED):
            facts, dump = read(flags)
            circle = [facts["locker"], facts["joiner"], facts["joined"]]
            self.assertEqual(len(dump["deadlocks"]), 1)
            found = [int(fiber) for fiber in dump["deadlocks"][0]]
            first = found.index(circle[0])
            self.assertEqual(found[first:] + found[:first], circle)
            self.assertEqual(len(dump["wait_circles"]), 1)
            ends = dump["wait_circles"][0]
            self.assertEqual({int(fiber) for fiber in ends["fibers"]}, {facts["parent"], facts["child"]})
            self.assertTrue(800e9 < ends["left_ns"] < 1000e9)

    def test_groups(self):
        facts, dump = read(GROUPED)
        self.assertNotIn("fibers", dump)
        groups = dump["groups"]
        counts = [group["count"] for group in groups]
        self.assertEqual(counts, sorted(counts, reverse=True))
        self.assertEqual(sum(counts), sum(cord["fibers"] for cord in dump["cords"]))
        self.assertEqual(groups[0]["count"], facts["readers"])
        self.assertIn(groups[0]["wait"], ("waits for read", "waits for poll"))
        self.assertEqual([frame["symbol"] for frame in groups[0]["frames"]][-2:], ["read_request", "serve"])
        self.assertEqual(len(set(groups[0]["fibers"])), 8)

    def test_without_frames(self):
        _, dump = read(0)
        self.assertTrue(all("frames" not in fiber for fiber in dump["fibers"]))

    def test_text(self):
        facts, dump = run(FRAMES | GROUPED)
        self.assertRegex(dump, f"\n{facts['readers']} fibers: .*read_request ← serve\n")
        self.assertIn("\ndeadlock: fibers wait for each other", dump)

    def test_signal_of_the_environment(self):
        for name, number in ("QUIT", signal.SIGQUIT), ("SIGUSR1", signal.SIGUSR1), ("12", 12), ("RTMIN+2", signal.SIGRTMIN + 2):
            environment = {**os.environ, "FIBERRT_DUMP_SIGNAL": name}
            with subprocess.Popen([PROGRAM, "wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as child:
                try:
                    facts = json.loads(child.stdout.readline())
                    for _ in range(2):
                        child.send_signal(number)
                        lines = iter(lambda: child.stderr.readline().decode(), "")
                        text = "".join(itertools.takewhile(lambda line: "until a deadline" not in line, lines))
                        self.assertIn("\ndeadlock: ", text)
                        self.assertRegex(text, f"\n{facts['readers']} fibers: .*read_request ← serve\n")
                finally:
                    child.kill()

    def test_signal_that_is_none(self):
        for name in "NONE", "SIG", "0", "-3", "3x", "99999999999999999999", "RTMIN+", "RTMIN+99", "RTMIN-1", "SEGV", "KILL":
            environment = {**os.environ, "FIBERRT_DUMP_SIGNAL": name}
            done = subprocess.run([PROGRAM, "0"], capture_output=True, timeout=120, check=True, env=environment)
            self.assertEqual(done.stderr.decode(), f'fiberrt: no dumps by FIBERRT_DUMP_SIGNAL "{name}": no such signal\n')


PROGRAM = sys.argv.pop(1)
unittest.main()
