//! A file that grows while a command goes on: made with the first bytes that are written to it, and
//! not left behind when there is nothing in it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file to be written from its beginning.
#[derive(Debug)]
pub(crate) struct GrowingFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl GrowingFile {
    /// Nothing is made yet, and what is there stays.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None }
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        match &mut self.file {
            Some(file) => Ok(file),
            missing => Ok(missing.insert(BufWriter::new(File::create(&self.path)?))),
        }
    }

    /// All of it is written, even if that is nothing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        match self.file().and_then(Write::flush) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.broken_off(&error)),
        }
    }

    /// The file cannot be written any more: why, and what is left of it.
    pub(crate) fn broken_off(self, error: &io::Error) -> Failure {
        let Self { path, file } = self;
        let shown = path.display();
        // Without another try to write what is in the buffer.
        let file = file.map(|file| file.into_parts().0);
        let written = file.and_then(|file| file.metadata().ok()).filter(|it| it.is_file());
        let left = match written.map(|written| written.len()) {
            Some(0) => match fs::remove_file(&path) {
                Ok(()) => "; nothing of it is left".to_owned(),
                Err(_) => "; it is empty".to_owned(),
            },
            Some(bytes) => format!("; its first {bytes} bytes are there"),
            None => String::new(),
        };
        Failure::new(format!("cannot write {shown}: {error}{left}"))
    }
}

impl Write for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("calisto-growing-{}-{name}", std::process::id()))
    }

    #[test]
    fn what_is_there_stays_until_something_is_written() {
        let path = path("before");
        fs::write(&path, "before").expect("the temporary folder is ours");
        drop(GrowingFile::new(&path));
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "before");
        let mut file = GrowingFile::new(&path);
        file.write_all(b"new").expect("it is ours");
        file.finish().expect("it is ours");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "new");
        GrowingFile::new(&path).finish().expect("it is ours");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "", "nothing was written");
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn of_a_file_that_got_nothing_nothing_is_left_and_of_another_its_length_is_told() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let (empty, begun) = (path("empty"), path("begun"));
        let mut file = GrowingFile::new(&empty);
        // It stays in the buffer.
        file.write_all(b"new").expect("it is ours");
        let failure = file.broken_off(&full).to_string();
        assert!(failure.ends_with("nothing of it is left") && !empty.exists(), "{failure}");
        let mut file = GrowingFile::new(&begun);
        file.write_all(b"new").and_then(|()| file.flush()).expect("it is ours");
        let failure = file.broken_off(&full).to_string();
        assert!(failure.ends_with("its first 3 bytes are there"), "{failure}");
        fs::remove_file(&begun).expect("it is ours");
        let failure = GrowingFile::new(Path::new("/nowhere/x")).finish().expect_err("no folder");
        assert!(failure.to_string().starts_with("cannot write /nowhere/x: No such"), "{failure}");
    }
}
