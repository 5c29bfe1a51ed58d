//! Opens paths beneath a folder, component by component and never through a link.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, openat, statat};

/// How folders are opened: a link in the place of one is an error.
const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A folder beneath which paths are opened.
#[derive(Debug)]
pub struct RootFolder(OwnedFd);

/// A path's parent folder, and the last part of its name.
#[derive(Debug)]
pub struct Place {
    pub parent: OwnedFd,
    pub name: OsString,
}

impl RootFolder {
    pub fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, folder, FOLDER_FLAGS, Mode::empty())?))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The path's parent folder. `Err`: a part of the path is no folder or is a link, or the path leaves the folder.
    pub fn place(&self, path: &str) -> io::Result<Place> {
        let path = Path::new(path);
        let parts: Option<Vec<&OsStr>> = path.components().map(normal_part).collect();
        let parts = parts.filter(|parts| !parts.is_empty());
        let parts =
            parts.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a path out of the folder"))?;
        let (name, folders) = parts.split_last().expect("there is a part");
        let mut parent = self.0.try_clone()?;
        for folder in folders {
            parent = open_folder(parent.as_fd(), folder)?;
        }
        Ok(Place { parent, name: (*name).to_owned() })
    }
}

impl Place {
    /// The metadata of what lies there, not of what a link points to. `None`: nothing does.
    pub fn stat(&self) -> io::Result<Option<Stat>> {
        match statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a folder by its name in `parent`; a link is an error.
pub fn open_folder(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(openat(parent, name, FOLDER_FLAGS, Mode::empty())?)
}

/// Opens a file for reading; a link is an error, and a pipe does not block.
pub fn open_file(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

fn normal_part(part: Component<'_>) -> Option<&OsStr> {
    match part {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_out_of_the_folder_is_refused() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path();
        std::fs::create_dir_all(folder.join("inside")).expect("a folder");
        std::fs::write(folder.join("outside.txt"), "x").expect("a file");
        let root = RootFolder::open(&folder.join("inside")).expect("it is there");
        for path in ["../outside.txt", "a/../../outside.txt", "/etc/passwd", "", ".", "./x"] {
            let found = root.place(path).map(|place| place.name);
            assert!(found.is_err(), "{path}: {found:?}");
        }
    }
}
