//! The suspended requests, by the slot of their admission. A slot stays taken until its request is about to be resumed, so
//! no list is needed beside the table.
//!
//! Called by the driver's other rooms. It resumes no request: the driver does, with what it takes out of the table.

use crate::context::{Context, Waiter};
use ratelimitly_core::backlog::{Backlog, PutOff};
use ratelimitly_core::client::AdmissionKey;
use std::cell::RefCell;

/// The table.
#[derive(Default)]
pub(super) struct Table {
    slots: RefCell<Vec<Option<Waiting>>>,
}

/// A suspended request.
struct Waiting {
    key: AdmissionKey,
    waiter: Waiter,
    /// Whether its deadline waits for the rest of what the socket holds.
    put_off: PutOff,
}

impl Table {
    pub fn insert(&self, key: AdmissionKey, waiter: Waiter) {
        let mut slots = self.slots.borrow_mut();
        let index = key.slot as usize;
        if slots.len() <= index {
            slots.resize_with(index + 1, || None);
        }
        slots[index] = Some(Waiting { key, waiter, put_off: PutOff::default() });
    }

    /// Takes the request of this admission out, if it still waits.
    pub fn take(&self, key: AdmissionKey) -> Option<Waiter> {
        let mut slots = self.slots.borrow_mut();
        let entry = slots.get_mut(key.slot as usize)?;
        entry.take_if(|entry| entry.key == key).map(|entry| entry.waiter)
    }

    /// Slots that are or were in use: `take_slot` finds the rest of the requests below this number.
    pub fn slots(&self) -> usize {
        self.slots.borrow().len()
    }

    /// Takes the request in a slot out, whichever it is.
    pub fn take_slot(&self, index: usize) -> Option<Waiter> {
        self.slots.borrow_mut()[index].take().map(|entry| entry.waiter)
    }

    /// Looks at the context of this admission's request, if it still waits.
    pub fn look(&self, key: AdmissionKey, look: impl FnOnce(&Context)) {
        if let Some(Some(entry)) = self.slots.borrow().get(key.slot as usize)
            && entry.key == key
        {
            look(entry.waiter.context());
        }
    }

    /// Whether an expired deadline may be judged: what the socket held at that moment has been read.
    pub fn may_judge(&self, key: AdmissionKey, backlog: Backlog) -> bool {
        let mut slots = self.slots.borrow_mut();
        let entry = slots.get_mut(key.slot as usize).and_then(Option::as_mut);
        entry.filter(|entry| entry.key == key).is_none_or(|entry| backlog.may_judge(&mut entry.put_off))
    }
}
