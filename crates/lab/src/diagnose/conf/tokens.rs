//! The words of nginx's configuration language: quotes, escapes, comments, `;`, `{`, `}`. Called by `tree.rs` on the text of
//! one file. Any bytes end in words or in a fault with a line; nothing panics and nothing recurses.

/// A word or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A name or an argument, without its quotes and escapes.
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// What cannot be read in a file, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Fault {
    /// Line, from 1.
    pub line: u32,
    /// What is wrong.
    pub what: &'static str,
}

/// Reads one file's text from its start to its end.
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    /// At the start of `text`.
    pub fn new(text: &'a [u8]) -> Lexer<'a> {
        Lexer { text, at: 0, line: 1 }
    }

    /// The line that is read next, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The next token, and `None` at the end.
    ///
    /// # Errors
    /// A quote that is not closed, or text right behind a closing quote.
    pub fn next(&mut self) -> Result<Option<Token>, Fault> {
        self.skip_blanks();
        let Some(first) = self.peek() else { return Ok(None) };
        let sign = match first {
            b';' => Token::End,
            b'{' => Token::Open,
            b'}' => Token::Close,
            b'"' | b'\'' => return self.quoted(first).map(Some),
            _ => return Ok(Some(self.bare())),
        };
        self.step();
        Ok(Some(sign))
    }

    /// Skips a block of Lua behind its `{`, with its closing brace. Braces in Lua's strings and comments do not count.
    ///
    /// # Errors
    /// The text ends inside.
    pub fn skip_lua(&mut self) -> Result<(), Fault> {
        let (mut depth, line) = (1_u32, self.line);
        while let Some(byte) = self.step() {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return Ok(()),
                b'}' => depth -= 1,
                b'"' | b'\'' => self.skip_lua_string(byte),
                b'-' if self.peek() == Some(b'-') => self.skip_lua_comment(),
                b'[' if self.peek() == Some(b'[') => self.skip_past(b"]]"),
                _ => {}
            }
        }
        Err(Fault { line, what: "this Lua block does not end" })
    }

    fn skip_lua_string(&mut self, quote: u8) {
        while let Some(byte) = self.step() {
            match byte {
                b'\\' => {
                    self.step();
                }
                b'\n' => return,
                _ if byte == quote => return,
                _ => {}
            }
        }
    }

    fn skip_lua_comment(&mut self) {
        let end: &[u8] = if self.text[self.at..].starts_with(b"-[[") { b"]]" } else { b"\n" };
        self.skip_past(end);
    }

    fn skip_past(&mut self, end: &[u8]) {
        while self.at < self.text.len() && !self.text[self.at..].starts_with(end) {
            self.step();
        }
        for _ in end {
            self.step();
        }
    }

    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => self.skip_past(b"\n"),
                _ if byte.is_ascii_whitespace() => drop(self.step()),
                _ => return,
            }
        }
    }

    /// A word in quotes. nginx wants a blank, `;`, `{` or `)` behind it.
    fn quoted(&mut self, quote: u8) -> Result<Token, Fault> {
        let line = self.line;
        self.step();
        let mut word = Vec::new();
        loop {
            match self.step() {
                None => return Err(Fault { line, what: "this quote is not closed" }),
                Some(b'\\') => self.escaped(&mut word),
                Some(byte) if byte == quote => break,
                Some(byte) => word.push(byte),
            }
        }
        match self.peek() {
            Some(byte) if !byte.is_ascii_whitespace() && !matches!(byte, b';' | b'{' | b')') => {
                Err(Fault { line: self.line, what: "text right behind a closing quote" })
            }
            _ => Ok(Token::Word(text(word))),
        }
    }

    /// A word without quotes: up to a blank, `;` or a brace that opens a block and no `${variable}`.
    fn bare(&mut self) -> Token {
        let mut word = Vec::new();
        while let Some(byte) = self.peek() {
            let variable = byte == b'{' && word.last() == Some(&b'$');
            if byte.is_ascii_whitespace() || byte == b';' || (byte == b'{' && !variable) {
                break;
            }
            self.step();
            match byte {
                b'\\' => self.escaped(&mut word),
                _ => word.push(byte),
            }
        }
        Token::Word(text(word))
    }

    /// What a backslash and the byte behind it stand for. nginx keeps the backslash before all other bytes.
    fn escaped(&mut self, word: &mut Vec<u8>) {
        match self.step() {
            Some(byte @ (b'"' | b'\'' | b'\\')) => word.push(byte),
            Some(b't') => word.push(b'\t'),
            Some(b'r') => word.push(b'\r'),
            Some(b'n') => word.push(b'\n'),
            Some(byte) => word.extend([b'\\', byte]),
            None => word.push(b'\\'),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn step(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += u32::from(byte == b'\n');
        Some(byte)
    }
}

fn text(word: Vec<u8>) -> String {
    String::from_utf8(word).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<Token>, Fault> {
        let mut lexer = Lexer::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(token) = lexer.next()? {
            all.push(token);
        }
        Ok(all)
    }

    fn word(text: &str) -> Token {
        Token::Word(text.into())
    }

    #[test]
    fn quotes_escapes_and_comments_are_read_as_nginx_reads_them() {
        let read = words("a 'b;{ #c' \"d \\\" e\" f\\;g # h ;\n\"\\d\" i#j;").expect("it can be read");
        let expected = ["a", "b;{ #c", "d \" e", "f\\;g", "\\d", "i#j"].map(word);
        assert_eq!(read[..6], expected);
        assert_eq!(read[6..], [Token::End]);
    }

    #[test]
    fn a_brace_behind_a_dollar_belongs_to_a_variable() {
        assert_eq!(words("x${y}z{").expect("it can be read"), [word("x${y}z"), Token::Open],);
    }

    #[test]
    fn a_quote_without_end_is_a_fault_with_its_line() {
        assert_eq!(words("a;\nb 'c\nd").expect_err("a fault").line, 2);
        assert_eq!(words("'a'b").expect_err("a fault").what, "text right behind a closing quote");
    }

    #[test]
    fn braces_in_lua_strings_and_comments_do_not_end_its_block() {
        let mut lexer = Lexer::new(b"s = '}' -- }\n t = {[[}]]} --[[ }\n }]] } next");
        lexer.skip_lua().expect("it ends");
        assert_eq!(lexer.next(), Ok(Some(word("next"))));
        assert_eq!(lexer.line(), 3);
    }
}
