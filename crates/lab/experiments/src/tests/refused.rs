//! Nonsense gets a sentence that names the field, its line and what is allowed.

use super::SMALL;
use crate::Scenario;

/// The small scenario with one thing different: how it is refused.
fn refusal(good: &str, bad: &str) -> (Option<usize>, String) {
    assert!(SMALL.contains(good), "{good}");
    let error = Scenario::parse(&SMALL.replacen(good, bad, 1)).expect_err(bad);
    (error.line(), error.to_string())
}

#[test]
fn nonsense_is_refused_by_field_line_and_allowed_range() {
    for (good, bad, words) in [
        ("cores = 1\n", "cores = 0\n", &["`cores` is 0", "1 to 1024"][..]),
        ("cores = 1\n", "cores = 1.5\n", &["`cores` is 1.5", "a whole number"]),
        ("cores = 1\n", "cores = \"many\"\n", &["`cores` is \"many\"", "a whole number"]),
        ("cores = 1\n", "coers = 1\n", &["no setting `coers`", "did you mean `cores`?"]),
        ("mean = \"10us\"", "mean = \"-10us\"", &["`mean` is \"-10us\"", "microseconds"]),
        ("mean = \"10us\"", "mean = inf", &["`mean` is inf", "microseconds"]),
        ("packets = 2000", "packets = 99999999999", &["`packets`", "20000000"]),
        ("values = [10, 50, 90]", "values = []", &["`x.values`", "1 to 1000"]),
        ("values = [10, 50, 90]", "values = [-10, 50]", &["`rate` is -10000", "\"20k\""]),
        ("values = [10, 50, 90]", "values = [50, 10]", &["`x.values`", "rise"]),
        ("values = [10, 50, 90]", "values = [nan]", &["`x.values`", "rise"]),
        (
            "set = { cores = 2 }",
            "set = { distribution = \"bimodal3\" }",
            &["did you mean \"bimodal"],
        ),
        ("set = { cores = 2 }", "set = { cores = 2, colour = 3 }", &["no setting `colour`"]),
        ("experiment = \"station\"", "experiment = \"statoin\"", &["did you mean \"station\"?"]),
        ("title = ", "tilte = ", &["no field `tilte`", "did you mean `title`?"]),
        ("name = \"small\"", "name = \"../small\"", &["`name` is \"../small\"", "lower-case"]),
        ("name = \"two\"", "name = \"one\"", &["two series are called \"one\""]),
        (
            "value = \"mean_us\"",
            "value = \"maen_us\"",
            &["no value \"maen_us\"", "did you mean \"mean_us\"?"],
        ),
        ("key = \"rate\"", "key = \"raet\"", &["no setting `raet`", "did you mean `rate`?"]),
        ("seed = 3", "seed = -3", &["`seed` cannot be read"]),
        ("seed = 3", "seed = three", &["`seed` cannot be read"]),
        ("relation = \"lower\"", "relation = \"lowr\"", &["did you mean `lower`?"]),
        ("series = \"two\"", "series = \"tow\"", &["no series is called \"tow\"", "\"two\""]),
        ("than = \"one\"\n", "", &["`than`"]),
        ("points = [[50, 15]]", "points = []", &["`points`"]),
        ("[sources]\nmean", "[sources]\nmeen", &["no setting `meen`", "`mean`"]),
    ] {
        let (line, sentence) = refusal(good, bad);
        let expected = SMALL.split(good).next().expect("there is a first part").lines().count();
        for word in words {
            assert!(sentence.contains(word), "{bad}: {sentence}");
        }
        // Of a table in a line the line is known, of what is missing none.
        if let Some(line) = line {
            assert!(line.abs_diff(expected) <= 5, "{bad}: {sentence}; it is about line {expected}");
        }
    }
}

#[test]
fn the_line_is_that_of_the_field() {
    let line_of = |what: &str| SMALL.lines().position(|line| line.contains(what)).map(|at| at + 1);
    for (good, bad) in [
        ("cores = 1\n", "cores = 0\n"),
        ("mean = \"10us\"", "mean = \"soon\""),
        ("seed = 3", "seed = \"x\""),
        ("set = { cores = 2 }", "set = { cores = 0 }"),
    ] {
        assert_eq!(refusal(good, bad).0, line_of(good.trim()), "{bad}");
    }
}

#[test]
fn what_would_run_for_ever_or_never_fit_is_refused() {
    let machine = SMALL
        .replace("experiment = \"station\"", "experiment = \"plant\"")
        .replace("packets = 2000", "packets = 1000");
    Scenario::parse(&machine).expect("the plant can be told the same");
    for (good, bad, words) in [
        ("packets = 1000", "length = \"600s\"\npackets = 100000000", &["requests in one run"][..]),
        ("cores = 2 }", "cores = 2, guaranteed = 3 }", &["`guaranteed` is 3", "at most 2"]),
        ("cores = 2 }", "apps = 2000, workers = 1000 }", &["`workers`", "60000"]),
        (
            "cores = 2 }",
            "loadshift = \"10k\" }",
            &["`loadshift` is \"10k\"", "\"20k:10ms,500k:5ms\""],
        ),
        ("cores = 2 }", "loadshift = \"10k:1ms\" }", &["write two or more"]),
        ("cores = 2 }", "loadshift = \"-5:1ms,1k:1s\" }", &["`loadshift`"]),
        ("cores = 2 }", "policy = \"stciky\" }", &["did you mean \"sticky\"?"]),
        ("cores = 2 }", "cores_policy = \"static\" }", &["\"static_set\""]),
        ("cores = 2 }", "groups = 1000 }", &["a power of two"]),
        ("cores = 2 }", "zipf = -1 }", &["`zipf` is -1", "0 to 3"]),
    ] {
        assert!(machine.contains(good), "{good}");
        let error = Scenario::parse(&machine.replacen(good, bad, 1)).expect_err(bad);
        for word in words {
            assert!(error.to_string().contains(word), "{bad}: {error}");
        }
        assert!(error.line().is_some(), "{bad}: {error}");
    }
}

#[test]
fn texts_that_are_no_scenario_are_refused_and_none_is_too_long_to_be_looked_at() {
    for text in ["", "name", "name = \"x\"", "[[series]]\n", "\u{0}", "x = [[[[[[[[[["] {
        assert!(Scenario::parse(text).is_err(), "{text:?}");
    }
    let long = format!("{SMALL}\n# {}", "x".repeat(300_000));
    let says = Scenario::parse(&long).expect_err("it is too long").to_string();
    assert!(says.contains("262144 bytes"), "{says}");
}

#[test]
fn a_sweep_in_one_run_is_refused_to_a_model_that_has_none() {
    let swept = SMALL.replace("unit = \"kpps\"", "unit = \"kpps\"\nover = \"steps\"");
    let says = Scenario::parse(&swept).expect_err("a station has no steps").to_string();
    assert!(says.contains("point by point"), "{says}");
}

#[test]
fn an_axis_that_means_nothing_to_one_of_the_models_is_refused_at_its_series() {
    let mixed = SMALL
        .replace("experiment = \"station\"", "experiment = \"plant\"")
        .replace("key = \"rate\"", "key = \"interval\"")
        .replace("factor = 1000.0\n", "")
        .replace("set = { cores = 2 }", "experiment = \"station\"");
    let error = Scenario::parse(&mixed).expect_err("a station has no interval");
    assert!(error.to_string().contains("\"station\" has no setting `interval`"), "{error}");
    let line = mixed.lines().position(|line| line == "name = \"two\"").map(|at| at + 1);
    assert_eq!(error.line(), line);
}

#[test]
fn a_run_of_more_stretches_of_time_than_fit_is_refused_before_any_is_made() {
    let over_time = SMALL
        .replace("experiment = \"station\"", "experiment = \"plant\"")
        .replace("key = \"rate\"\nfactor = 1000.0\nvalues = [10, 50, 90]", "over = \"time\"")
        .replace("packets = 2000", "packets = 1000");
    Scenario::parse(&over_time).expect("the plant can be seen over time");
    let over_points = SMALL.replace("experiment = \"station\"", "experiment = \"plant\"");
    let many = "1k:1ms,".repeat(999) + "1k:1ms";
    let shifts = format!("loadshift = \"{many}\", repeat = 10000");
    for (text, set, words) in [
        // A hundred thousand million slices of a microsecond.
        (&over_time, "rate = 1, slice = \"1us\", packets = 100000", "`slice`"),
        (&over_time, "loadshift = \"1k:600s\", slice = \"1us\"", "`slice`"),
        (
            &over_time,
            "loadshift = \"1k:9s\", slice = \"1ms\", apps = 1200, flows = 2000",
            "`apps` is 1200",
        ),
        (&over_points, shifts.as_str(), "`repeat`"),
    ] {
        let text = text.replace("set = { cores = 2 }", &format!("set = {{ {set} }}"));
        let error = Scenario::parse(&text).expect_err(set);
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.line().is_some(), "{error}");
    }
}

#[test]
fn a_sweep_in_one_run_goes_through_rates_and_nothing_else() {
    let steps = SMALL
        .replace("experiment = \"station\"", "experiment = \"plant\"")
        .replace("unit = \"kpps\"", "unit = \"kpps\"\nover = \"steps\"");
    Scenario::parse(&steps).expect("rates can follow each other");
    let error = Scenario::parse(&steps.replace("key = \"rate\"", "key = \"interval\""));
    let error = error.expect_err("the interval does not change within a run");
    assert!(error.to_string().contains("goes through `rate`"), "{error}");
    let line = steps.lines().position(|line| line.starts_with("key = ")).map(|at| at + 1);
    assert_eq!(error.line(), line);
}

#[test]
fn a_prediction_of_more_requests_than_fit_is_refused() {
    let demo = SMALL
        .replace("experiment = \"station\"", "experiment = \"demo\"")
        .replace("\"mean_us\"", "\"p50_us\"")
        .replace("cores = 1\nmean = \"10us\"\npackets = 2000", "length = \"1s\"")
        .replace("[sources]\nmean = \"chosen\"", "")
        .replace("distribution = \"exponential\"", "flows = 1000")
        .replace("cores = 2", "workers = 2");
    Scenario::parse(&demo).expect("a scenario of this size is allowed");
    let long = demo.replace("length = \"1s\"", "length = \"60s\"");
    let error = Scenario::parse(&long.replace("[10, 50, 90]", "[10, 10000]"));
    let error = error.expect_err("six hundred million are too many").to_string();
    assert!(error.contains("requests; allowed are at most 20000000"), "{error}");
}

#[test]
fn what_no_page_would_take_is_refused_before_it_is_run() {
    let long = format!("title = \"{}\"", "x".repeat(201));
    for (good, bad, words) in [
        ("title = \"A queue\"", "title = \"\"", "title is empty"),
        ("title = \"A queue\"", long.as_str(), "title has 201 characters"),
        ("unit = \"us\"", &format!("unit = \"{}\"", "u".repeat(65)), "unit of y has 65"),
        ("label = \"Two servers\"", "label = \"\"", "label of a series is empty"),
        ("label = \"Mean\"", "label = \"\"", "label of y is empty"),
        ("name = \"one-theory\"", "name = \"one\"", "series"),
        ("points = [[50, 15]]", "points = [[50, 1e20]]", "y is 1"),
        ("points = [[50, 15]]", "points = [[50, 15], [50, 16]]", "twice"),
        ("values = [10, 50, 90]", "values = [10, 50, 50.00001]", "alike to the six digits"),
        ("name = \"right\"", &format!("name = \"{}\"", "p".repeat(65)), "panels has 65"),
    ] {
        let (_, sentence) = refusal(good, bad);
        assert!(sentence.contains(words), "{bad}: {sentence}");
    }
    let claim = SMALL.split("[[claim]]").nth(1).expect("it has one");
    let twice = format!("{SMALL}\n[[claim]]{}", claim.replace("\"lower\"", "\"higher\""));
    let says = Scenario::parse(&twice).expect_err("which of them holds?").to_string();
    assert!(says.contains("claimed twice"), "{says}");
}

#[test]
fn no_name_of_the_code_is_in_what_is_said() {
    let error = Scenario::parse("x = 3\n").expect_err("an axis is a table").to_string();
    assert!(error.contains("`x` cannot be read") && error.contains("expected a table"), "{error}");
    assert!(!error.contains("XText"), "{error}");
}
