//! The API key: `ratelimitly_auth_key` and `ratelimitly_auth_key_file`. No message shows a key, or what else a file held.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ratelimitly_config::key_file::{self, MAX_BYTES};
use ratelimitly_config::key_text::{self, Mistake};
use ratelimitly_config::text::{Excerpt, holds_key};
use ratelimitly_core::key::{ApiKey, KeyError};
use zeroize::Zeroizing;

use crate::conf::MainConf;
use crate::conf::problem::Problem;
use crate::conf::settings::{only, set_once};
use crate::nginx::conf::Conf;

const KEY: &str = "ratelimitly_auth_key rl-aes1...|rl-cookie1...";
const KEY_FILE: &str = "ratelimitly_auth_key_file <path>";

/// The bit of a file's mode that lets everybody read it.
const READ_BY_OTHERS: u32 = 0o004;

/// Where the key came from, for the message about a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `ratelimitly_auth_key`.
    Directive,
    /// `ratelimitly_auth_key_file`.
    File,
}

/// `ratelimitly_auth_key`. No message shows the argument.
pub fn auth_key(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let key = match only(cf, KEY)? {
        [] => return Err(Problem::KeyEmpty),
        text if text.contains(&b'$') => return Err(Problem::KeyVariable),
        text => parse_key(text)?,
    };
    take(cf, main, Source::Directive, KEY, key)
}

/// `ratelimitly_auth_key_file`, read at every load.
pub fn auth_key_file(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let text = only(cf, KEY_FILE)?;
    if text.is_empty() {
        return Err(Problem::Empty { argument: "path", max: libc::PATH_MAX as usize });
    }
    if holds_key(text) {
        return Err(Problem::KeyForPath);
    }
    let path = cf.full_path(text)?;
    let shown = || Excerpt::new(path.as_os_str().as_encoded_bytes());
    let mut buffer = Zeroizing::new([0u8; MAX_BYTES + 1]);
    let (contents, mode) =
        read(&path, &mut buffer[..]).map_err(|error| Problem::KeyFile { path: shown(), error })?;
    let key = key_file::line(contents).map_err(|error| Problem::KeyFileText { path: shown(), error })?;
    let key =
        parse_key(key).map_err(|problem| Problem::KeyInFile { path: shown(), problem: Box::new(problem) })?;
    take(cf, main, Source::File, KEY_FILE, key)?;
    if mode & READ_BY_OTHERS != 0 {
        cf.warn(format_args!(
            "\"{}\" can be read by every user of this machine, expected a file for its owner alone (chmod 600)",
            shown()
        ));
    }
    Ok(())
}

fn take(
    cf: &Conf,
    main: &mut MainConf,
    source: Source,
    usage: &'static str,
    key: ApiKey,
) -> Result<(), Problem> {
    if let Some((before, place)) = main.loading.given.key.replace((source, cf.place()))
        && before != source
    {
        return Err(Problem::TwoKeys { place });
    }
    set_once(&mut main.settings.key, usage, key)
}

fn parse_key(text: &[u8]) -> Result<ApiKey, Problem> {
    let key = std::str::from_utf8(text).map_err(|_| Problem::KeyBytes);
    let key = key.and_then(|text| ApiKey::parse(text).map_err(Problem::Key));
    key.map_err(|problem| match (key_text::mistake(text), problem) {
        (Some(Mistake::Foreign), Problem::Key(error)) => Problem::ForeignKey { error },
        (Some(mistake), _) => Problem::NotAKey(mistake),
        // Its checksum is right, so nothing of it was lost: it was made in another format.
        (None, Problem::Key(error @ KeyError::Length(_))) => Problem::OldKey { error },
        (None, problem) => problem,
    })
}

/// Why a key file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refuses.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A folder, a pipe, a device.
    #[error("is not a regular file")]
    Kind,
}

/// The beginning of a regular file, and its mode. A pipe without a writer must not hold up nginx, hence the flags.
fn read<'a>(path: &Path, buffer: &'a mut [u8]) -> Result<(&'a [u8], u32), ReadError> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ReadError::Kind);
    }
    let len = fill(&mut file, buffer)?;
    Ok((&buffer[..len], metadata.mode()))
}

/// Reads until the buffer is full or the file ends. Nothing in between keeps a copy.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}
