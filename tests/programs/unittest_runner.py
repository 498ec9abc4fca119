"""Runs a module of CPython's tests and says on standard output how each test begins and ends, so that
it is known which one it dies in: MODULE FILE_OF_DONE SECONDS_EACH [FILE_OF_WANTED]."""

import faulthandler
import os
import sys
import unittest

NAME, DONE, SECONDS = sys.argv[1], open(sys.argv[2]).read().split(), int(sys.argv[3])
WANTED = open(sys.argv[4]).read().split() if len(sys.argv) > 4 else None
# Tests may put another file in the place of ours.
OUT = os.dup(1)
sys.argv = [NAME]


def say(what, test):
    os.write(OUT, f"\n@@{what} {test.id()}@@\n".encode())


class Result(unittest.TestResult):
    """Says what it is told."""

    def startTest(self, test):
        super().startTest(test)
        self.outcome = "passed"
        say("begin", test)
        # One that hangs ends the process.
        faulthandler.dump_traceback_later(SECONDS, exit=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        say(self.outcome, test)
        super().stopTest(test)

    def failed(self, test, error):
        self.outcome = "failed"
        print(test.id(), self._exc_info_to_string(error, test), file=sys.stderr, flush=True)

    def addError(self, test, error):
        super().addError(test, error)
        if not isinstance(test, unittest.TestCase):
            # setUpClass or setUpModule: the tests in it do not begin.
            test.id().split() and os.write(OUT, f"\n@@failed {test.id().replace(' ', '_')}@@\n".encode())
            print(test.id(), error[1], file=sys.stderr, flush=True)
            return
        self.failed(test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.failed(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.failed(test, error)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = "skipped"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcome = "failed"


def tests(suite):
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests(each)
        else:
            yield each


def main():
    try:
        from test import support
        # Connections within the host are "network" to them too; the Internet is not there.
        support.use_resources = ["network"]
        loaded = unittest.defaultTestLoader.loadTestsFromName(NAME)
    except unittest.SkipTest:
        return
    wanted = lambda test: test.id() not in DONE and (WANTED is None or test.id() in WANTED)
    unittest.TestSuite(filter(wanted, tests(loaded))).run(Result())


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # Threads that a failed test has left are no reason to go on.
    os._exit(0)
