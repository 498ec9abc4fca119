//! What a program is started with, and which ones are told that they cannot be helped.

use super::*;

#[test]
fn a_profile_that_was_said_is_preferred_to_the_environments() {
    let chosen = |said, variable: Option<&str>| Profile::choose(said, variable.map(Into::into));
    assert_eq!(chosen(None, None), Ok(Profile::Latency));
    assert_eq!(chosen(None, Some("")), Ok(Profile::Latency));
    assert_eq!(chosen(None, Some("safe")), Ok(Profile::Safe));
    assert_eq!(chosen(Some(Profile::Throughput), Some("safe")), Ok(Profile::Throughput));
    let failure = chosen(None, Some("fast")).expect_err("there is none");
    assert!(failure.to_string().contains("`throughput` and `safe`"), "{failure}");
    assert_eq!(failure.exit_code(), 2);
}

#[test]
fn the_socket_is_found_from_every_folder() {
    let here = std::env::current_dir().expect("we are somewhere");
    assert_eq!(socket_of(Some(Path::new("a.sock")), || "/b".into()), here.join("a.sock"));
    assert_eq!(socket_of(None, || "/b".into()), Path::new("/b"));
    assert_eq!(socket_of(None, || "b".into()), here.join("b"));
}

#[test]
fn a_plan_names_what_stands_in_the_way_and_how_to_mend_it() {
    let gone = Path::new("/nowhere/apps.sock");
    let plan = Plan::make(&["true".into()], Profile::Safe, Some(gone)).expect("it is there");
    assert!(!plan.is_accelerated());
    let text = plan.render();
    let words: Vec<_> = plan.obstacles.iter().map(|reason| &*reason.name).collect();
    assert!(words.contains(&"no_daemon"), "{words:?}");
    for part in ["program  /", "profile  safe", "on the kernel's stack", "`calisto up`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_the_machine_has_about_it_is_in_the_plan_and_what_is_unseen_is_said() {
    let finding = |level, subject: &str| Finding {
        subject: subject.to_owned(),
        level,
        what: "is so".to_owned(),
        cost: Some("the kernel serves".to_owned()),
        mend: None,
        blocks_ports: false,
    };
    let plan = |found: &[Finding]| {
        let plan = Plan {
            schema_version: SCHEMA_VERSION,
            files: vec!["/bin/true".into()],
            is_accelerated: true,
            profile: Profile::Safe,
            socket: "/s".into(),
            library: None,
            obstacles: Vec::new(),
            doubts: Vec::new(),
            daemon: None,
        };
        plan.with_findings(found.to_vec())
    };
    let text = plan(&[finding(Level::Fine, "a")]).render();
    assert!(text.ends_with("It would be accelerated.\n"), "{text}");
    let unseen = finding(Level::Note, "packet filter");
    let text = plan(std::slice::from_ref(&unseen)).render();
    let end = "as far as can be seen:\n  packet filter is so; the kernel serves\n";
    assert!(text.ends_with(end), "{text}");
    let refused = plan(&[finding(Level::Missing, "network namespace"), unseen]);
    assert!(!refused.is_accelerated());
    assert_eq!(refused.obstacles[0].name, "network_namespace");
    let end = "stack, because\n  network namespace is so; the kernel serves\n";
    assert!(refused.render().ends_with(end), "{}", refused.render());
}

#[test]
fn a_program_that_is_not_there_ends_as_in_a_shell() {
    for (program, exit_code) in [("/nowhere/x", 127), ("/etc/passwd", 126)] {
        let none = Plan::make(&[program.into()], Profile::Safe, None).expect_err(program);
        assert_eq!(none.exit_code, exit_code);
        assert!(none.sentence.contains(program), "{}", none.sentence);
    }
}

#[test]
fn a_script_whose_interpreter_is_missing_is_not_taken_for_missing_itself() {
    use std::os::unix::fs::PermissionsExt;
    let name = format!("calisto-script-{}", std::process::id());
    let script = std::env::temp_dir().join(name);
    std::fs::write(&script, "#!/nowhere/python9 -u\n").expect("the folder is anybody's");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("it is ours");
    let made = Plan::make(&[script.clone().into()], Profile::Safe, None);
    std::fs::remove_file(&script).expect("it is ours");
    let none = made.expect_err("nobody can run it");
    assert_eq!(none.exit_code, 126, "as in a shell");
    let says = format!("`{}`: its first line names `/nowhere/python9`", script.display());
    assert!(none.sentence.contains(&says), "{}", none.sentence);
}
