//! The key that protects state which the MCP interface hands to clients and must recognise later, also after
//! a restart.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::Service;
use crate::error::Error;
use crate::random;

const KEY_BYTES: usize = 32;
/// The file in the data folder that holds the key.
const KEY_FILE: &str = "door.key";

impl Service {
    /// Reads the key, and creates it on first use. It is the same for every process of this account on this
    /// machine. Blocks for a file of 32 bytes: for the start of a process. Err: the file cannot be created or
    /// read.
    pub fn seal_key(&self) -> Result<[u8; KEY_BYTES], Error> {
        let file = crate::folders::data_folder().join(KEY_FILE);
        let failed = |error: std::io::Error| Error::KeyFile { file: file.clone(), error };
        file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        match create_key_file(&file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => created.map_err(failed)?,
        }
        let mut key = [0; KEY_BYTES];
        std::fs::File::open(&file).and_then(|mut file| file.read_exact(&mut key)).map_err(failed)?;
        Ok(key)
    }
}

/// Creates the key file. The key is written to a temporary file and then linked into place, so that no
/// process reads half a key. Fails with `AlreadyExists` if there is one.
fn create_key_file(file: &Path) -> std::io::Result<()> {
    let temp = file.with_extension(random::id());
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(&temp)?.write_all(&random::bytes::<KEY_BYTES>())?;
    let linked = std::fs::hard_link(&temp, file);
    std::fs::remove_file(&temp)?;
    linked
}
