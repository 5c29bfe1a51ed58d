//! The secret with which this machine seals what it hands out and must know again, across restarts.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::Service;
use crate::error::Error;
use crate::random;

const KEY_BYTES: usize = 32;
const FILE: &str = "door.key";

impl Service {
    /// The same for every process of this account on this machine.
    pub fn seal_key(&self) -> Result<[u8; KEY_BYTES], Error> {
        let file = crate::folders::data().join(FILE);
        let failed = |error: std::io::Error| {
            Error::new("io", format!("{}: {error}", file.display()), "make the data folder writable")
        };
        file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        match make(&file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        let mut key = [0; KEY_BYTES];
        std::fs::File::open(&file).and_then(|mut file| file.read_exact(&mut key)).map_err(failed)?;
        Ok(key)
    }
}

/// Written aside and linked into place, so that nobody reads half a key.
fn make(file: &Path) -> std::io::Result<()> {
    let aside = file.with_extension(random::id());
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(&aside)?.write_all(&random::bytes::<KEY_BYTES>())?;
    let linked = std::fs::hard_link(&aside, file);
    std::fs::remove_file(&aside)?;
    linked
}
