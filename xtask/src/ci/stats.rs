//! Counting what passed and failed, from the lines that the test harness prints.

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Success,
    Failure,
}

/// Passed and failed, tests and checks together.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// A line for each thing that failed.
    pub(super) names: Vec<String>,
    /// A line for each test that failed beside others and passed alone.
    pub(super) unstable: Vec<String>,
    /// Tests that have been running for long.
    running: Vec<String>,
}

impl Stats {
    /// One check that is no test, such as clippy.
    pub(super) fn check(&mut self, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Success => self.passed += 1,
            Outcome::Failure => self.fail(name),
        }
    }

    /// One more line of a test run.
    pub(super) fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(name) = long_test(line) {
            self.running.push(name.to_owned());
        } else if let Some(name) = ended_test(line) {
            self.running.retain(|running| running != name);
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
        } else if let Some(name) = failed_test(line) {
            self.names.push(format!("FAILED {name}"));
        }
    }

    /// The test run is over. One that could not build, or died, has failed although no line
    /// says so; one that ran nothing has tested nothing.
    pub(super) fn end(&mut self, name: &str, outcome: Outcome) {
        self.end_program(name, outcome);
        if self.passed == 0 && self.failed == 0 {
            self.fail(&format!("{name} (ran no test)"));
        }
    }

    /// One of several programs has ended. There are some without tests.
    pub(super) fn end_program(&mut self, name: &str, outcome: Outcome) {
        if outcome == Outcome::Failure && self.failed == 0 {
            self.fail(name);
        }
        self.names.extend(self.running.drain(..).map(|name| format!("NOT ENDED {name}")));
    }

    pub(super) fn add(&mut self, other: Self) {
        let Self { passed, failed, names, unstable, running: _ } = other;
        self.passed += passed;
        self.failed += failed;
        self.names.extend(names);
        self.unstable.extend(unstable);
    }

    /// The tests that are known to have failed.
    pub(super) fn failed_tests(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.strip_prefix("FAILED "))
    }

    /// A test that has failed counts as passed after all, and is named with the reason.
    pub(super) fn is_unstable(&mut self, test: &str, why: &str) {
        let failed = format!("FAILED {test}");
        let Some(at) = self.names.iter().position(|name| *name == failed) else { return };
        self.names.remove(at);
        self.failed -= 1;
        self.passed += 1;
        self.unstable.push(format!("UNSTABLE {test}: {why}"));
    }

    fn fail(&mut self, name: &str) {
        self.failed += 1;
        self.names.push(format!("FAILED {name}"));
    }
}

/// The number that stands right before `unit`; zero when there is none.
fn number_before(text: &str, unit: &str) -> u64 {
    let before = text.split_once(unit).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The name in `test NAME ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix("FAILED")?.trim_end().strip_suffix(" ...")
}

/// The name in `test NAME has been running for over 60 seconds`.
fn long_test(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("test ")?.split_once(" has been running for over ")?;
    Some(name)
}

/// The name in `test NAME ... ` and any result.
fn ended_test(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some(name)
}
