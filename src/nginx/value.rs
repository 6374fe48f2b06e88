//! One slot of nginx's table of variables. Its length and its four flags share a word, which the bindings take apart bit by
//! bit, in a loop over the length's 28; here it is read and written whole.
//!
//! Used by the variables' handler, and by `request` for the notes and for values that nginx is to compute anew.

use ngx::ffi::ngx_variable_value_t;

/// Bits of the length.
const LEN: u32 = (1 << 28) - 1;
const VALID: u32 = 1 << 28;
const NO_CACHEABLE: u32 = 1 << 29;
const NOT_FOUND: u32 = 1 << 30;

// C puts the first bit-field into the lowest bits on such machines only.
const _: () = assert!(cfg!(target_endian = "little"), "the module is for little-endian platforms");

/// A slot, for the length of one call.
#[repr(transparent)]
pub struct Slot(ngx_variable_value_t);

impl Slot {
    /// The slots behind nginx's own.
    pub fn all(values: &mut [ngx_variable_value_t]) -> &mut [Slot] {
        // SAFETY: `Slot` is nginx's type under another name, and the borrow goes on as it was.
        unsafe { &mut *(std::ptr::from_mut(values) as *mut [Slot]) }
    }

    /// The slot behind nginx's own.
    pub fn of(value: &mut ngx_variable_value_t) -> &mut Slot {
        &mut Slot::all(std::slice::from_mut(value))[0]
    }

    /// Gives it this text, which has to stay as long as the request. nginx asks again for each reader that wants it fresh.
    pub fn set(&mut self, text: &[u8]) {
        self.0.data = text.as_ptr().cast_mut();
        *self.word() = text.len() as u32 & LEN | VALID | NO_CACHEABLE;
    }

    /// Says that the variable has no value.
    pub fn set_not_found(&mut self) {
        *self.word() |= NOT_FOUND;
    }

    /// Lets nginx compute the value for its next reader.
    pub fn forget(&mut self) {
        *self.word() &= !(VALID | NOT_FOUND);
    }

    /// The number in place of the length.
    pub fn note(&mut self) -> u32 {
        *self.word() & LEN
    }

    /// Puts a number of at most 28 bits in place of the length. The variable stays without a value.
    pub fn set_note(&mut self, note: u32) {
        let word = self.word();
        *word = *word & !LEN | note & LEN;
    }

    fn word(&mut self) -> &mut u32 {
        // SAFETY: the bit-fields are the first member, four bytes aligned as a word, and the borrow is the slot's own.
        unsafe { &mut *std::ptr::from_mut(&mut self.0).cast::<u32>() }
    }
}
