//! The faults that tests inject into discovery. Without the feature `fault-injection` the type is empty and no
//! fault ever fires.

/// Says whether the named fault fires now.
#[cfg(feature = "fault-injection")]
pub type Ask = std::rc::Rc<dyn Fn(&str) -> bool>;

/// Asks whether a named fault fires now: `dns_bind`, `dns_connect`, `dns_timer`, `spawn`, `task_panic`.
#[derive(Clone, Default)]
pub struct Faults {
    #[cfg(feature = "fault-injection")]
    ask: Option<Ask>,
}

impl Faults {
    /// Faults that fire when `ask` says so.
    #[cfg(feature = "fault-injection")]
    pub fn new(ask: Ask) -> Faults {
        Faults { ask: Some(ask) }
    }

    /// Whether the fault `name` fires now.
    #[cfg(feature = "fault-injection")]
    pub fn fires(&self, name: &str) -> bool {
        self.ask.as_ref().is_some_and(|ask| ask(name))
    }

    /// Whether the fault `name` fires now: never in this build.
    #[cfg(not(feature = "fault-injection"))]
    pub fn fires(&self, _name: &str) -> bool {
        false
    }

    /// The fault `name` as an I/O error, if it fires now.
    pub fn fail(&self, name: &str) -> std::io::Result<()> {
        if self.fires(name) {
            return Err(std::io::Error::other(format!("injected fault {name}")));
        }
        Ok(())
    }
}
