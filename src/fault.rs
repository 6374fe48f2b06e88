//! Faults that tests inject. Called by the rooms in which they fire; `conf` reads the directive `ratelimitly_fault`. Builds
//! without the feature `fault-injection` do not know the directive, and asking whether a fault fires is then a constant
//! `false`.

/// A place where a fault can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Opening the worker's UDP socket.
    Socket,
    /// Getting nginx's connection for it.
    Connection,
    /// Registering it with nginx's event method.
    Event,
    /// Making the resolver.
    Resolver,
    /// Starting discovery's task.
    Spawn,
    /// Binding a DNS socket.
    DnsBind,
    /// Connecting to a DNS server over TCP.
    DnsConnect,
    /// A timer of discovery.
    DnsTimer,
    /// Drawing the random seed.
    Random,
    /// Opening the replacement socket.
    Rebind,
    /// Watching a waiting request's client for an abort.
    Watch,
    /// A panic in the phase handler.
    HandlerPanic,
    /// A panic inside the core, at its next entry.
    CorePanic,
    /// A panic inside the core while it takes datagrams in.
    ReceivePanic,
    /// A panic in a task of discovery.
    TaskPanic,
}

#[cfg(not(feature = "fault-injection"))]
mod set {
    use super::Fault;

    /// No fault.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Faults;

    impl Faults {
        /// Never.
        #[inline(always)]
        pub fn fires(&self, _fault: Fault) -> bool {
            false
        }
    }
}

#[cfg(feature = "fault-injection")]
mod set {
    use std::cell::Cell;

    use super::Fault;

    const NAMES: [(&[u8], Fault); COUNT] = [
        (b"socket", Fault::Socket),
        (b"connection", Fault::Connection),
        (b"event", Fault::Event),
        (b"resolver", Fault::Resolver),
        (b"spawn", Fault::Spawn),
        (b"dns_bind", Fault::DnsBind),
        (b"dns_connect", Fault::DnsConnect),
        (b"dns_timer", Fault::DnsTimer),
        (b"random", Fault::Random),
        (b"rebind", Fault::Rebind),
        (b"watch", Fault::Watch),
        (b"handler_panic", Fault::HandlerPanic),
        (b"core_panic", Fault::CorePanic),
        (b"receive_panic", Fault::ReceivePanic),
        (b"task_panic", Fault::TaskPanic),
    ];

    const COUNT: usize = Fault::TaskPanic as usize + 1;
    /// Fires as long as the worker lives.
    const ALWAYS: u32 = u32::MAX;

    /// How often each fault still fires. Every worker counts on its own.
    #[derive(Clone, Debug, Default)]
    pub struct Faults([Cell<u32>; COUNT]);

    impl Faults {
        /// Whether the fault fires now; takes one off its count.
        pub fn fires(&self, fault: Fault) -> bool {
            let remaining = &self.0[fault as usize];
            match remaining.get() {
                0 => false,
                ALWAYS => true,
                n => {
                    remaining.set(n - 1);
                    true
                }
            }
        }

        /// Lets the fault of this name fire so many times, or each time where `count` is `None`. `false`: no such fault.
        pub fn set(&self, name: &[u8], count: Option<u32>) -> bool {
            let known = NAMES.iter().find(|(known, _)| *known == name);
            known.map(|(_, fault)| self.0[*fault as usize].set(count.unwrap_or(ALWAYS))).is_some()
        }
    }
}

pub use set::Faults;

impl Faults {
    /// The fault as an I/O error, if it fires now.
    pub fn fail(&self, fault: Fault) -> std::io::Result<()> {
        if self.fires(fault) {
            return Err(std::io::Error::other(format!("injected fault {fault:?}")));
        }
        Ok(())
    }
}
