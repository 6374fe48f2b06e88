//! Runs discovery's futures on nginx's event loop.
//!
//! A woken task is queued and run from a posted event, never inside `wake` itself: hickory wakes tasks while it
//! holds locks that they take. Each [`Executor`] belongs to one discovery; dropping it drops every future and, with
//! them, their sockets and timers. A panic ends its task only.

use crate::fault::{Fault, Faults};
use crate::nginx::border;
use crate::nginx::posted::PostedEvent;
use async_task::{Runnable, Task};
use send_wrapper::SendWrapper;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::rc::{Rc, Weak};

/// Owns the tasks of one discovery.
pub struct Executor {
    queue: Rc<Queue>,
}

/// Starts tasks on an executor without keeping it alive.
#[derive(Clone)]
pub struct Spawner {
    queue: Weak<Queue>,
    faults: Rc<Faults>,
}

struct Queue {
    ready: RefCell<VecDeque<Runnable>>,
    tasks: RefCell<Vec<Task<()>>>,
    turn: PostedEvent,
    running: Cell<bool>,
    closed: Cell<bool>,
}

impl Executor {
    /// An executor without tasks.
    pub fn new() -> Executor {
        let queue = Rc::new_cyclic(|queue: &Weak<Queue>| {
            let queue = queue.clone();
            let run = move || {
                if let Some(queue) = queue.upgrade() {
                    queue.run();
                }
            };
            Queue {
                ready: RefCell::default(),
                tasks: RefCell::default(),
                turn: PostedEvent::new("discovery's executor", run),
                running: Cell::new(false),
                closed: Cell::new(false),
            }
        });
        Executor { queue }
    }

    /// A handle that starts tasks here.
    pub fn spawner(&self, faults: Rc<Faults>) -> Spawner {
        Spawner { queue: Rc::downgrade(&self.queue), faults }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.queue.closed.set(true);
        // Taken out first: dropping a future may wake others, which looks at the queue.
        let ready = mem::take(&mut *self.queue.ready.borrow_mut());
        let tasks = mem::take(&mut *self.queue.tasks.borrow_mut());
        drop(ready);
        drop(tasks);
    }
}

impl Spawner {
    /// Starts `future`; it first runs from the event loop. `false`: it was not started, because the executor is gone
    /// (or by an injected fault), and has been dropped.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> bool {
        let Some(queue) = self.queue.upgrade() else { return false };
        if queue.closed.get() || self.faults.fires(Fault::Spawn) {
            return false;
        }
        // A waker may be sent to other threads as far as its type says. There are none in a worker; the wrapper
        // would panic rather than touch the `Weak` elsewhere.
        let to = SendWrapper::new(self.queue.clone());
        let schedule = move |runnable| {
            if let Some(queue) = to.upgrade() {
                queue.schedule(runnable);
            }
        };
        let (runnable, task) = async_task::spawn_local(future, schedule);
        let mut tasks = queue.tasks.borrow_mut();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
        drop(tasks);
        runnable.schedule();
        true
    }
}

impl Queue {
    /// Queues a woken task. After the end its future is dropped here instead.
    fn schedule(&self, runnable: Runnable) {
        if self.closed.get() {
            return drop(runnable);
        }
        self.ready.borrow_mut().push_back(runnable);
        // Tasks that wake each other get one round per event-loop iteration, so that they cannot keep it to themselves.
        if self.running.get() { self.turn.post() } else { self.turn.post_now() }
    }

    fn run(&self) {
        let batch = mem::take(&mut *self.ready.borrow_mut());
        self.running.set(true);
        for runnable in batch {
            border::guarded("a task of discovery", (), || {
                runnable.run();
            });
        }
        self.running.set(false);
    }
}
