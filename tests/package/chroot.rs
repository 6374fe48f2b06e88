//! Commands in the chroot, and what its files and processes tell. Called by the steps. A command that fails ends the check
//! with what it said.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The module's package.
pub const MODULE: &str = "libnginx-mod-http-ratelimitly";
/// The development server's package.
pub const DEVSERVER: &str = "ratelimitly-devserver";

/// A root folder with a Debian in it.
pub struct Chroot {
    root: PathBuf,
    packages: PathBuf,
}

impl Chroot {
    /// `packages` is the folder of the packages, as the chroot sees it.
    pub fn new(root: PathBuf, packages: PathBuf) -> Chroot {
        Chroot { root, packages }
    }

    /// A file of the chroot, as this program sees it.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// What a file holds.
    ///
    /// # Panics
    /// It cannot be read.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.root).args(words).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Runs a command; gives what it wrote, messages included.
    ///
    /// # Panics
    /// It fails.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "{words:?}: {}\n{said}", output.status);
        said
    }

    /// Starts a program that goes on; its first line on stdout can be read.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(&self, words: &[&str]) -> Child {
        let started = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        started.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Installs packages with apt: names from the archive, or files.
    pub fn install(&self, packages: &[&str]) {
        self.run(&[&["apt-get", "install", "-y", "--no-install-recommends"], packages].concat());
    }

    /// The folder of the packages, as the chroot sees it.
    pub fn packages(&self) -> String {
        self.packages.to_string_lossy().into_owned()
    }

    /// The file of a package of ours.
    ///
    /// # Panics
    /// There is not exactly one.
    pub fn file(&self, package: &str) -> String {
        let folder = std::fs::read_dir(self.path(&self.packages())).expect("the folder exists");
        let names = folder.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let start = format!("{package}_");
        let mut found: Vec<String> =
            names.filter(|name| name.starts_with(&start) && name.ends_with(".deb")).collect();
        assert_eq!(found.len(), 1, "packages named {start}*.deb: {found:?}");
        self.packages.join(found.remove(0)).to_string_lossy().into_owned()
    }

    /// A field of an installed package.
    pub fn field(&self, package: &str, field: &str) -> String {
        self.run(&["dpkg-query", "-W", "-f", &format!("${{{field}}}"), package])
    }

    /// nginx's master process.
    ///
    /// # Panics
    /// nginx has written no process id.
    pub fn master(&self) -> u32 {
        self.read("/run/nginx.pid").trim().parse().expect("a process id")
    }

    /// Paths below the chroot whose names hold this text; the folder of the packages and logs are not looked at.
    pub fn named(&self, text: &str) -> Vec<PathBuf> {
        let apart = [self.path("/proc"), self.path("/sys"), self.path("/srv"), self.path("/var/log")];
        let mut folders = vec![self.root.clone()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if apart.contains(&path) {
                    continue;
                }
                if Path::new(&entry.file_name()).to_string_lossy().contains(text) {
                    found.push(path.clone());
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                }
            }
        }
        found
    }
}
