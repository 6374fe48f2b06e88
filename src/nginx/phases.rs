//! Registering the module in nginx's phases and among its variables, at the end of loading a configuration.

use crate::nginx::conf::{Conf, NoMemory};
use crate::nginx::module::ModuleIndex;
use ngx::core::Status;
use ngx::ffi::{
    self, ngx_array_t, ngx_http_core_main_conf_t, ngx_http_get_variable_pt, ngx_http_handler_pt,
    ngx_http_request_t, ngx_int_t, ngx_str_t, ngx_uint_t, ngx_variable_value_t,
};

/// Where each request has the cached value of a variable. The default is no variable's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableIndex(usize);

impl Default for VariableIndex {
    fn default() -> VariableIndex {
        VariableIndex(usize::MAX)
    }
}

impl VariableIndex {
    /// The index in the request's array.
    pub fn get(self) -> usize {
        self.0
    }
}

/// Where each request has the cached values of variables that follow each other. The default is of no variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VariableRange {
    first: VariableIndex,
    len: usize,
    read: NoteIndex,
}

impl VariableRange {
    /// The first one.
    pub fn first(self) -> VariableIndex {
        self.first
    }

    /// How many they are.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether one of them was read, and its value may change.
    pub fn read(self) -> NoteIndex {
        self.read
    }
}

/// Where each request has a number that only this module reads and writes: the slot of a variable that no configuration
/// can name. It costs no allocation, and internal redirects keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteIndex(VariableIndex);

impl NoteIndex {
    /// The slot's variable.
    pub fn variable(self) -> VariableIndex {
        self.0
    }
}

/// A phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before content: `try_files`, `mirror`.
    PreContent = ffi::ngx_http_phases_NGX_HTTP_PRECONTENT_PHASE as isize,
    /// After the response.
    Log = ffi::ngx_http_phases_NGX_HTTP_LOG_PHASE as isize,
}

impl Conf {
    /// Puts `handler` at the front of its phase's array. nginx runs a phase from the end of the array, so it is the last
    /// of the phase, also where modules register later; the log phase alone runs from the front.
    pub fn put_handler_first(&self, phase: Phase, handler: ngx_http_handler_pt) -> Result<(), NoMemory> {
        let handlers = self.phase_handlers(phase)?;
        // SAFETY: the array is the core module's, with this element type, and live while loading. `elts` is read after
        // the push, which may move it.
        unsafe {
            if ffi::ngx_array_push(handlers).is_null() {
                return Err(NoMemory);
            }
            let first = (*handlers).elts.cast::<ngx_http_handler_pt>();
            first.copy_to(first.add(1), (*handlers).nelts - 1);
            first.write(handler);
        }
        Ok(())
    }

    fn phase_handlers(&self, phase: Phase) -> Result<*mut ngx_array_t, NoMemory> {
        let core =
            self.http_conf(ModuleIndex::http_core()).ok_or(NoMemory)?.cast::<ngx_http_core_main_conf_t>();
        // SAFETY: the core module's main configuration is live inside http{}, and `phase` is one of its phases.
        Ok(unsafe { &raw mut (*core.as_ptr()).phases[phase as usize].handlers })
    }

    /// Adds variables that are computed anew for each reader; call it before the http block is parsed. `evaluate` finds a
    /// name's position in its `data`.
    pub fn add_variables(
        &self,
        names: impl Iterator<Item = &'static [u8]> + Clone,
        evaluate: ngx_http_get_variable_pt,
    ) -> Result<(), NoMemory> {
        for (position, name) in names.clone().enumerate() {
            self.add(name, evaluate, position, ffi::NGX_HTTP_VAR_NOCACHEABLE)?;
        }
        // Indexed now, before the http block can name one, so that their slots follow each other.
        self.variable_range(names, NoteIndex::default()).map(drop)
    }

    /// Where requests keep the values of variables that `add_variables` has added; `read` is a note for readers of them.
    pub fn variable_range(
        &self,
        names: impl Iterator<Item = &'static [u8]>,
        read: NoteIndex,
    ) -> Result<VariableRange, NoMemory> {
        let mut range = VariableRange { read, ..VariableRange::default() };
        for (position, name) in names.enumerate() {
            let index = self.variable_index(name)?;
            if position == 0 {
                range.first = index;
            }
            assert_eq!(index.0, range.first.0 + position, "nothing else indexes variables in between");
            range.len = position + 1;
        }
        Ok(range)
    }

    /// Adds a slot for a note; call it before the http block is parsed. `name` must hold a byte that names in
    /// configurations cannot have, such as a space.
    pub fn add_note(&self, name: &'static [u8]) -> Result<(), NoMemory> {
        // Not in the hash: modules that look variables up by any name (SSI, scripts) do not find it either.
        self.add(name, Some(no_value), 0, ffi::NGX_HTTP_VAR_NOHASH)
    }

    fn add(
        &self,
        name: &'static [u8],
        evaluate: ngx_http_get_variable_pt,
        data: usize,
        flags: u32,
    ) -> Result<(), NoMemory> {
        let mut name = text(name);
        let flags = flags as ngx_uint_t;
        // SAFETY: the loader is live; nginx copies the name, and fills in the entry, which stays in the configuration's pool.
        unsafe {
            let variable =
                ffi::ngx_http_add_variable(self.as_ptr(), &mut name, flags).as_mut().ok_or(NoMemory)?;
            variable.get_handler = evaluate;
            variable.data = data;
        }
        Ok(())
    }

    /// The index of a variable in every request's table of cached values.
    fn variable_index(&self, name: &'static [u8]) -> Result<VariableIndex, NoMemory> {
        let mut name = text(name);
        // SAFETY: as in `add`.
        let index = unsafe { ffi::ngx_http_get_variable_index(self.as_ptr(), &mut name) };
        usize::try_from(index).map(VariableIndex).map_err(|_| NoMemory)
    }

    /// The index of a slot that `add_note` has added.
    pub fn note_index(&self, name: &'static [u8]) -> Result<NoteIndex, NoMemory> {
        self.variable_index(name).map(NoteIndex)
    }
}

/// No reader can name a note's variable, so that nginx never asks for its value.
unsafe extern "C" fn no_value(
    _r: *mut ngx_http_request_t,
    _value: *mut ngx_variable_value_t,
    _data: usize,
) -> ngx_int_t {
    Status::NGX_ERROR.0
}

fn text(name: &'static [u8]) -> ngx_str_t {
    ngx_str_t { len: name.len(), data: name.as_ptr().cast_mut() }
}
