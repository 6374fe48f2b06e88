//! Time for discovery's futures: a sleep on an nginx timer, and the clock that hickory asks for.
//!
//! The timers never keep a leaving worker alive, and a dropped sleep is disarmed.

use crate::nginx::timer::{Leaving, Timer};
use async_trait::async_trait;
use futures_util::future::{Either, select};
use hickory_resolver::net::runtime::Time;
use send_wrapper::SendWrapper;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Longest time that one timer is armed for, in milliseconds (about 24 days): it fits nginx's clock on every
/// platform.
const LONGEST_MS: u64 = i32::MAX as u64;

/// Ends after a time that runs from its creation.
pub struct Sleep(SendWrapper<Armed>);

struct Armed {
    state: Rc<State>,
    /// Held for its drop, which disarms it.
    _timer: Timer,
}

#[derive(Default)]
struct State {
    fired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Sleep {
    /// Ends `duration` from now, rounded up to milliseconds.
    pub fn new(duration: Duration) -> Sleep {
        let ms = u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(LONGEST_MS).min(LONGEST_MS);
        let state = Rc::new(State::default());
        let fired = state.clone();
        let timer = Timer::new("a timer of discovery", Leaving::GoesOn, move || fired.fire());
        timer.arm(ms);
        Sleep(SendWrapper::new(Armed { state, _timer: timer }))
    }
}

impl State {
    fn fire(&self) {
        self.fired.set(true);
        // Taken in a statement of its own, so that no borrow is held while waking.
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let state = &self.0.state;
        if state.fired.get() {
            return Poll::Ready(());
        }
        match &mut *state.waker.borrow_mut() {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// hickory's clock: nginx's timers.
pub struct Clock;

#[async_trait]
impl Time for Clock {
    async fn delay_for(duration: Duration) {
        Sleep::new(duration).await;
    }

    async fn timeout<F: 'static + Future + Send>(duration: Duration, future: F) -> io::Result<F::Output> {
        match select(pin!(future), Sleep::new(duration)).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
