//! Folders as people leave them.

use super::*;
use crate::sample;

/// A folder with these files.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("report-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder is ours");
        for (name, text) in files {
            fs::write(path.join(name), text).expect("the folder is ours");
        }
        Self(path)
    }

    fn read(&self) -> Result<Report, Error> {
        read(std::slice::from_ref(&self.0))
    }

    /// What is wrong, without the folder's own name.
    fn wrong(&self) -> String {
        let error = self.read().expect_err("it cannot be read").to_string();
        error.replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn json(lines: &[Line]) -> String {
    let line = |line| serde_json::to_string(line).expect("lines are JSON") + "\n";
    lines.iter().map(line).collect()
}

#[test]
fn shards_of_a_folder_become_one_figure_and_other_files_are_left_alone() {
    let lines = sample::lines();
    let (head, rest) = lines.split_first().expect("the first one is the figure");
    let (one, two) = rest.split_at(rest.len() / 2);
    let shard = |part: &[Line]| json(&[std::slice::from_ref(head), part].concat());
    let files = [("a.jsonl", shard(one)), ("b.jsonl", shard(two)), ("c.txt", "no".to_owned())];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let folder = Folder::new("shards", &files);
    let report = folder.read().expect("all is well");
    let [figure] = report.figures() else { panic!("{report:?}") };
    assert_eq!(figure.coverage().there, figure.coverage().promised);
}

#[test]
fn an_empty_line_is_no_line() {
    let text = format!("\n{}  \n\n", json(&sample::lines()));
    let folder = Folder::new("empty-line", &[("a.jsonl", &text)]);
    assert_eq!(folder.read().expect("all is well").figures().len(), 1);
}

#[test]
fn a_bad_line_is_told_with_file_and_number() {
    let good = json(&sample::lines()[..2]);
    let cases = [
        ("{", "a.jsonl:3: no JSON: EOF while parsing"),
        ("\u{0}", "a.jsonl:3: no JSON: expected value"),
        ("{\"line\":\"picture\"}", "a.jsonl:3: unknown variant `picture`"),
        ("{\"line\":\"point\",\"figure\":\"f\"}", "a.jsonl:3: missing field `panel`"),
        (
            "{\"line\":\"point\",\"figure\":\"f\",\"panel\":\"\",\"series\":\"s\",\"x\":1,\"y\":null}",
            "a.jsonl:3: invalid type: null, expected f64",
        ),
        (
            "{\"line\":\"point\",\"figure\":\"f\",\"panel\":\"\",\"series\":\"s\",\"x\":1,\"y\":1e999}",
            "a.jsonl:3: no JSON: number out of range",
        ),
        (
            "{\"line\":\"point\",\"figure\":\"f\",\"panel\":\"\",\"series\":\"s\",\"x\":1,\"y\":NaN}",
            "a.jsonl:3: ",
        ),
        (
            "{\"line\":\"point\",\"figure\":\"f\",\"panel\":\"\",\"series\":\"s\",\"x\":1,\"y\":1e99}",
            "a.jsonl:3: y is 1e99",
        ),
    ];
    for (bad, expected) in cases {
        let text = format!("{good}{bad}\n");
        let folder = Folder::new("bad-line", &[("a.jsonl", &text)]);
        let wrong = folder.wrong();
        assert!(wrong.starts_with(expected), "{wrong}");
        assert!(!wrong.contains(" at line "), "{wrong}");
    }
}

#[test]
fn a_line_without_end_is_not_read_to_its_end() {
    let text = " ".repeat(LINE_MAX as usize + 10);
    let folder = Folder::new("long-line", &[("a.jsonl", &text)]);
    assert_eq!(folder.wrong(), "a.jsonl:1: the line is longer than 1048576 bytes");
}

#[test]
fn where_nothing_is_that_is_said() {
    let folder = Folder::new("nothing", &[("a.jsonl", "\n"), ("b.csv", "x")]);
    assert!(folder.wrong().starts_with("there are no results in "));
    let nowhere = read(&["/nowhere/x".into()]).expect_err("there is no such file").to_string();
    assert!(nowhere.starts_with("cannot read /nowhere/x: "), "{nowhere}");
}
