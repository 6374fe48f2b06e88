//! Directives and blocks of one file, made of the words of `tokens.rs`. Called by `dump.rs`. A file with a fault gives what
//! stands before it, and the fault.

use super::tokens::{Fault, Lexer, Token};
use std::rc::Rc;

/// Blocks within blocks. nginx's own have four levels, and locations can be nested further.
const DEPTH: usize = 32;

/// One directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its name.
    pub name: String,
    /// Its arguments, without quotes.
    pub args: Vec<String>,
    /// The file that it stands in.
    pub file: Rc<str>,
    /// The line of its name, from 1.
    pub line: u32,
    /// What stands in its braces, if it has any.
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    /// The first argument, or nothing.
    pub fn first(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }

    /// The value of an argument `<name>=<value>`.
    pub fn named(&self, name: &str) -> Option<&str> {
        self.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
    }

    /// The directives in its braces.
    pub fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Those of one name in its braces.
    pub fn own<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Directive> {
        self.inside().iter().filter(move |directive| directive.name == name)
    }
}

/// The directives of a file, and what ended the reading before its end.
pub fn parse(file: &Rc<str>, text: &[u8]) -> (Vec<Directive>, Option<Fault>) {
    let mut reader = Reader { file, open: Vec::new(), done: Vec::new(), words: Vec::new(), line: 1 };
    let fault = reader.read(&mut Lexer::new(text)).err();
    (reader.finish(), fault)
}

struct Reader<'a> {
    file: &'a Rc<str>,
    /// Blocks that are not closed yet, outermost first.
    open: Vec<Directive>,
    done: Vec<Directive>,
    /// The words of the directive that is being read, and the line of the first.
    words: Vec<String>,
    line: u32,
}

impl Reader<'_> {
    fn read(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Fault> {
        loop {
            let token = lexer.next()?;
            let fault = |what| Err(Fault { line: lexer.line(), what });
            match token {
                Some(Token::Word(word)) => self.word(word, lexer.line()),
                Some(Token::End) if self.words.is_empty() => return fault("a \";\" without a directive"),
                Some(Token::End) => self.end(),
                Some(Token::Open) if self.words.is_empty() => return fault("a \"{\" without a directive"),
                Some(Token::Open) if self.open.len() == DEPTH => return fault("more than 32 nested blocks"),
                Some(Token::Open) => self.start(lexer)?,
                Some(Token::Close) if !self.words.is_empty() => return fault("a directive without \";\""),
                Some(Token::Close) if !self.close() => return fault("a \"}\" without a block"),
                Some(Token::Close) => {}
                None if !self.words.is_empty() => return fault("a directive without \";\""),
                None if !self.open.is_empty() => return fault("a block without \"}\""),
                None => return Ok(()),
            }
        }
    }

    fn word(&mut self, word: String, line: u32) {
        if self.words.is_empty() {
            self.line = line;
        }
        self.words.push(word);
    }

    fn start(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Fault> {
        let directive = self.directive(Some(Vec::new()));
        if directive.name.ends_with("_by_lua_block") {
            self.add(directive);
            return lexer.skip_lua();
        }
        self.open.push(directive);
        Ok(())
    }

    fn end(&mut self) {
        let directive = self.directive(None);
        self.add(directive);
    }

    fn close(&mut self) -> bool {
        let closed = self.open.pop();
        closed.map(|block| self.add(block)).is_some()
    }

    fn directive(&mut self, block: Option<Vec<Directive>>) -> Directive {
        let mut words = std::mem::take(&mut self.words).into_iter();
        let name = words.next().unwrap_or_default();
        Directive { name, args: words.collect(), file: Rc::clone(self.file), line: self.line, block }
    }

    fn add(&mut self, directive: Directive) {
        let around = self.open.last_mut().and_then(|block| block.block.as_mut());
        around.unwrap_or(&mut self.done).push(directive);
    }

    fn finish(mut self) -> Vec<Directive> {
        while self.close() {}
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Directive>, Option<Fault>) {
        parse(&Rc::from("nginx.conf"), text.as_bytes())
    }

    #[test]
    fn blocks_hold_their_directives_with_lines() {
        let (all, fault) = read("events {}\nhttp {\n  server {\n listen 80;\n }\n}\n");
        assert_eq!(fault, None);
        let server = &all[1].inside()[0];
        assert_eq!((server.line, server.inside()[0].line, server.inside()[0].first()), (3, 4, "80"));
    }

    #[test]
    fn a_fault_leaves_what_stands_before_it() {
        let (all, fault) = read("a 1;\nhttp { b 2; ; }");
        assert_eq!((all[0].name.as_str(), all[1].inside()[0].name.as_str()), ("a", "b"));
        assert_eq!(fault.expect("a fault").to_string(), "line 2: a \";\" without a directive");
        for bad in ["}", "{", "a", "a {", "a }"] {
            assert!(read(bad).1.is_some(), "{bad}");
        }
    }

    #[test]
    fn blocks_nest_to_a_bound() {
        assert_eq!(read(&format!("{}{}", "a {".repeat(32), "}".repeat(32))).1, None);
        assert!(read(&"a {".repeat(100_000)).1.is_some());
    }

    #[test]
    fn lua_is_no_configuration() {
        let (all, fault) = read("access_by_lua_block { if a then b = {'}'} end }\nc;");
        assert_eq!((all.len(), fault), (2, None));
    }
}
