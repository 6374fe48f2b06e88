//! Refusals without a question. A nameserver from before EDNS may answer a query that has it with the bare header of a
//! DNS message: it could not read the rest. hickory takes that for a forgery, and would wait until the end.
//!
//! Called by the UDP socket for each datagram that it receives. It looks at the first bytes only and allocates nothing.

/// Length of a DNS header.
const HEADER: usize = 12;
/// Record type and class behind a name.
const TYPE_AND_CLASS: usize = 4;
const FORMERR: u8 = 1;
const NOTIMP: u8 = 4;

/// Puts the question of `query` into `buffer`, whose first `length` bytes have been received, where they are nothing
/// but the header of a FORMERR or NOTIMP with the query's id. Gives the new length.
pub fn complete(query: &[u8], buffer: &mut [u8], length: usize) -> usize {
    let Some(question) = question(query) else { return length };
    let end = HEADER + question.len();
    if length != HEADER || buffer.len() < end || buffer[..2] != query[..2] || !is_refusal(&buffer[..HEADER]) {
        return length;
    }
    buffer[HEADER..end].copy_from_slice(question);
    buffer[5] = 1;
    end
}

/// Whether this is the header of a response that counts no question and no record, and says FORMERR or NOTIMP.
fn is_refusal(header: &[u8]) -> bool {
    let is_response = header[2] & 0x80 != 0;
    is_response
        && [FORMERR, NOTIMP].contains(&(header[3] & 0x0f))
        && header[4..].iter().all(|byte| *byte == 0)
}

/// The one question of a query: labels up to the empty one, type and class.
fn question(query: &[u8]) -> Option<&[u8]> {
    let mut at = HEADER;
    while *query.get(at)? != 0 {
        at += 1 + usize::from(query[at]);
    }
    query.get(HEADER..at + 1 + TYPE_AND_CLASS)
}
