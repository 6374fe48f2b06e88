//! The control socket: commands come in as JSON lines over a Unix socket, each is answered by one JSON line. Opened by
//! `devserver.rs`; what a command does is decided there.

use crate::command::{Command, CommandError, Reply};
use crate::devserver::Core;
use serde::Serialize;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

/// Longest command, bytes.
const MAX_LINE: u64 = 1 << 20;

/// Listens until it is dropped, which removes the file.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl ControlSocket {
    pub fn open(path: &Path, core: Arc<Core>) -> io::Result<ControlSocket> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("control socket {}: {error}", path.display()))
        };
        remove_stale(path).map_err(named)?;
        let listener = UnixListener::bind(path).map_err(named)?;
        // Whoever may write to it controls the server: its owner alone.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(named)?;
        Ok(ControlSocket { path: path.to_owned(), task: tokio::spawn(accept(listener, core)) })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.task.abort();
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "control socket cannot be removed");
        }
    }
}

/// Removes a socket that an earlier run left behind; one that somebody listens on, and any other file, stays.
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the path is taken by something that is no socket",
        )),
        Ok(_) if StdUnixStream::connect(path).is_ok() => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it"))
        }
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

async fn accept(listener: UnixListener, core: Arc<Core>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, Arc::clone(&core)))),
                Err(error) => tracing::warn!(%error, "control connection cannot be accepted"),
            },
            // Ended connections are thrown away as they end.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: UnixStream, core: Arc<Core>) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let outcome = match Command::from_json(&line) {
            Ok(command) => core.apply(command).await,
            Err(error) => Err(error),
        };
        if writer.write_all(&render(outcome)).await.is_err() {
            return;
        }
    }
}

/// One line: `{"ok":true,"reply":…}` or `{"ok":false,"error":…}`.
fn render(outcome: Result<Reply, CommandError>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line {
        ok: bool,
        #[serde(flatten)]
        reply: Option<Reply>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
    let line = match outcome {
        Ok(reply) => Line { ok: true, reply: Some(reply), error: None },
        Err(error) => Line { ok: false, reply: None, error: Some(error.to_string()) },
    };
    let mut bytes = serde_json::to_vec(&line).expect("a line has string keys only");
    bytes.push(b'\n');
    bytes
}
