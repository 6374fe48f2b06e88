//! What `nginx -T` prints: the files of a configuration, one after the other, each behind a line
//! `# configuration file <path>:`. `include` lines stand in it as they are, and are followed here. A text without such a
//! line is one file. Called by `conf.rs`.

use super::glob;
use super::tree::{self, Directive};
use std::rc::Rc;

const MARK: &str = "# configuration file ";
/// Includes within includes, and blocks around them.
const DEPTH: usize = 64;
/// Directives in all: files that include each other twice and twice again must not multiply without end.
const DIRECTIVES: usize = 1_000_000;

/// A file of the dump.
struct File {
    path: Rc<str>,
    directives: Vec<Directive>,
}

/// The whole configuration with every include in its place.
#[derive(Debug, Default)]
pub struct Dump {
    /// The main file's directives.
    pub directives: Vec<Directive>,
    /// What could not be read, each with its file.
    pub faults: Vec<String>,
}

/// Reads a dump, or a file named `path`.
pub fn read(path: &str, text: &[u8]) -> Dump {
    let mut faults = Vec::new();
    let mut files = Vec::new();
    for (path, text) in parts(path, text) {
        let (directives, fault) = tree::parse(&path, &text);
        faults.extend(fault.map(|fault| format!("{path}: {fault}")));
        files.push(File { path, directives });
    }
    let mut all = Expansion { files: &files, room: DIRECTIVES, full: false };
    let directives = files.first().map_or_else(Vec::new, |main| all.expand(&main.directives, 0));
    if all.full {
        faults.push(format!("includes go deeper than {DEPTH} or make more than {DIRECTIVES} directives"));
    }
    Dump { directives, faults }
}

/// The files of a dump. What stands before the first mark is what nginx said about the test.
fn parts(path: &str, text: &[u8]) -> Vec<(Rc<str>, Vec<u8>)> {
    let mut files: Vec<(Rc<str>, Vec<u8>)> = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match marked(line) {
            Some(path) => files.push((Rc::from(path), Vec::new())),
            None => files.last_mut().into_iter().for_each(|(_, text)| text.extend_from_slice(line)),
        }
    }
    if files.is_empty() { vec![(Rc::from(path), text.to_vec())] } else { files }
}

fn marked(line: &[u8]) -> Option<&str> {
    std::str::from_utf8(line).ok()?.trim_end().strip_prefix(MARK)?.strip_suffix(':')
}

struct Expansion<'a> {
    files: &'a [File],
    room: usize,
    full: bool,
}

impl Expansion<'_> {
    fn expand(&mut self, directives: &[Directive], depth: usize) -> Vec<Directive> {
        let mut all = Vec::new();
        for directive in directives {
            if self.room == 0 || depth == DEPTH {
                self.full = true;
                break;
            }
            self.room -= 1;
            match directive.name.as_str() {
                "include" => all.extend(self.included(directive, depth)),
                _ => all.push(self.one(directive, depth)),
            }
        }
        all
    }

    fn one(&mut self, directive: &Directive, depth: usize) -> Directive {
        let block = directive.block.as_ref().map(|block| self.expand(block, depth + 1));
        directive.with(block)
    }

    /// nginx takes relative names from the main file's folder, and files of one pattern in the order of the dump.
    fn included(&mut self, include: &Directive, depth: usize) -> Vec<Directive> {
        let files = self.files;
        let folder = files.first().and_then(|main| main.path.rfind('/').map(|end| &main.path[..=end]));
        let name = include.first();
        let pattern =
            if name.starts_with('/') { name.to_owned() } else { format!("{}{name}", folder.unwrap_or("")) };
        let found = files.iter().skip(1).filter(|file| glob::matches(&pattern, &file.path));
        let found: Vec<&File> = found.collect();
        found.into_iter().flat_map(|file| self.expand(&file.directives, depth + 1)).collect()
    }
}

impl Directive {
    /// The same directive with other contents.
    fn with(&self, block: Option<Vec<Directive>>) -> Directive {
        let Directive { name, args, file, line, .. } = self;
        Directive { name: name.clone(), args: args.clone(), file: Rc::clone(file), line: *line, block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "nginx: the configuration file /etc/nginx/nginx.conf syntax is ok\n\
        # configuration file /etc/nginx/nginx.conf:\n\
        events {}\nhttp {\n    include conf.d/*.conf;\n}\n\
        # configuration file /etc/nginx/conf.d/b.conf:\n\
        server {\n    include /etc/nginx/proxy_params;\n}\n\
        # configuration file /etc/nginx/proxy_params:\n\
        proxy_read_timeout 5s;\n";

    #[test]
    fn includes_stand_where_nginx_puts_them_with_their_own_lines() {
        let dump = read("-", DUMP.as_bytes());
        assert_eq!(dump.faults, Vec::<String>::new());
        let server = &dump.directives[1].inside()[0];
        let timeout = &server.inside()[0];
        assert_eq!((&*server.file, server.line), ("/etc/nginx/conf.d/b.conf", 1));
        assert_eq!((&*timeout.file, timeout.line, timeout.first()), ("/etc/nginx/proxy_params", 1, "5s"));
    }

    #[test]
    fn a_plain_file_is_read_too_and_a_fault_names_it() {
        let dump = read("site.conf", b"a;\nb '");
        assert_eq!(dump.directives.len(), 1);
        assert_eq!(dump.faults, ["site.conf: line 2: this quote is not closed"]);
    }

    #[test]
    fn files_that_include_themselves_come_to_an_end() {
        let text = "# configuration file /m:\ninclude /a;\n\
                    # configuration file /a:\ninclude /a; include /a;\n";
        let dump = read("-", text.as_bytes());
        assert!(dump.faults[0].starts_with("includes go deeper"), "{:?}", dump.faults);
    }
}
