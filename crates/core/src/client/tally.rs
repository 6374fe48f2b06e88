//! Who has answered an admission: one bit a member, the first 64 in the slot itself.
//!
//! Used by judging (to note answers) and by the rounds (to skip members that have answered). There may be any
//! number of members; above 64 the bits go to the slot's spill, which keeps its memory for the next admission.

use super::slots::Slots;

/// Members whose bit is in the slot.
const INLINE: usize = u64::BITS as usize;

impl Slots {
    /// Notes a valid answer.
    pub(super) fn mark_answered(&mut self, index: u32, member: usize) {
        if member < INLINE {
            self[index].answered |= 1 << member;
        } else {
            set(&mut self.spill[index as usize].answered, member - INLINE);
        }
    }

    /// Notes an authentic answer of the wrong counts.
    pub(super) fn mark_wrong(&mut self, index: u32, member: usize) {
        self[index].wrong = true;
        set(&mut self.spill[index as usize].wrong, member);
    }

    /// Whether a member has answered validly.
    pub(super) fn has_answered(&self, index: u32, member: usize) -> bool {
        if member < INLINE {
            self[index].answered >> member & 1 == 1
        } else {
            is_set(&self.spill[index as usize].answered, member - INLINE)
        }
    }

    /// How many members have answered validly.
    pub(super) fn answers(&self, index: u32) -> usize {
        let inline = self[index].answered.count_ones() as usize;
        match self[index].members() {
            Some(members) if members.members().len() > INLINE => {
                inline + count(&self.spill[index as usize].answered)
            }
            _ => inline,
        }
    }

    /// Whether every member has answered and each with the wrong counts.
    pub(super) fn all_wrong(&self, index: u32) -> bool {
        let slot = &self[index];
        let members = slot.members().map_or(0, |members| members.members().len());
        slot.wrong && count(&self.spill[index as usize].wrong) == members
    }
}

fn set(words: &mut Vec<u64>, bit: usize) {
    let word = bit / INLINE;
    if words.len() <= word {
        words.resize(word + 1, 0);
    }
    words[word] |= 1 << (bit % INLINE);
}

fn is_set(words: &[u64], bit: usize) -> bool {
    words.get(bit / INLINE).is_some_and(|word| word >> (bit % INLINE) & 1 == 1)
}

fn count(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}
