//! std's atomics, with a hook of the running thread called before each operation.

use std::cell::RefCell;
use std::sync::atomic::{self, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

type Hook = Box<dyn FnMut()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Calls `hook` before each atomic operation of this thread in `run`. The hook performs none
/// itself; it may stop the thread or unwind.
pub(crate) fn watch<R>(hook: impl FnMut() + 'static, run: impl FnOnce() -> R) -> R {
    /// Removes the hook, also when `run` unwinds.
    struct Unhook;
    impl Drop for Unhook {
        fn drop(&mut self) {
            HOOK.set(None);
        }
    }
    HOOK.set(Some(Box::new(hook)));
    let _unhook = Unhook;
    run()
}

/// Runs `act`, which may take `most` operations on atomics; `what` names it in the failure.
pub(crate) fn bounded<R>(most: u64, what: String, act: impl FnOnce() -> R) -> R {
    let mut steps = 0;
    let hook = move || {
        steps += 1;
        assert!(steps <= most, "{what} takes more than {most} operations");
    };
    watch(hook, act)
}

/// Runs `act` on a thread that stops before its `number`th operation, from 1, until `meanwhile` has
/// returned. Returns the result of `act`, and whether it reached that operation; if not,
/// `meanwhile` is not called. `act` may take `most` operations in all.
pub(crate) fn park_before<R: Send>(
    number: u64,
    most: u64,
    act: impl FnOnce() -> R + Send,
    meanwhile: impl FnOnce(),
) -> (R, bool) {
    let (stop, stopped) = sync_channel(1);
    let (go_on, went_on) = sync_channel::<()>(0);
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let (mut steps, hook_stop) = (0, stop.clone());
            let hook = move || {
                steps += 1;
                assert!(steps <= most, "the stopped thread does not get through");
                if steps == number {
                    hook_stop.send(true).expect("the test waits for it");
                    // Returns when the other end is gone.
                    let _ = went_on.recv();
                }
            };
            let result = watch(hook, act);
            // The receiver may be gone.
            let _ = stop.try_send(false);
            result
        });
        // Moved here, so that the thread goes on also if something fails below.
        let go_on = go_on;
        let was_stopped = stopped.recv().expect("the thread reports");
        if was_stopped {
            meanwhile();
        }
        drop(go_on);
        (thread.join().expect("the stopped thread gets through"), was_stopped)
    })
}

fn step() {
    HOOK.with_borrow_mut(|hook| {
        if let Some(hook) = hook {
            hook();
        }
    });
}

pub(crate) fn fence(ordering: Ordering) {
    step();
    atomic::fence(ordering);
}

#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct AtomicU64(atomic::AtomicU64);

macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*$(,)?) -> $result:ty;)*) => {
        #[allow(dead_code, reason = "the same operations as std's, whichever are in use")]
        impl AtomicU64 {
            pub(crate) const fn new(value: u64) -> Self {
                Self(atomic::AtomicU64::new(value))
            }

            $(pub(crate) fn $name(&self, $($argument: $type),*) -> $result {
                step();
                self.0.$name($($argument),*)
            })*
        }
    };
}

forward! {
    load(ordering: Ordering) -> u64;
    store(value: u64, ordering: Ordering) -> ();
    swap(value: u64, ordering: Ordering) -> u64;
    compare_exchange(from: u64, to: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
    compare_exchange_weak(
        from: u64,
        to: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
    fetch_add(value: u64, ordering: Ordering) -> u64;
    fetch_sub(value: u64, ordering: Ordering) -> u64;
    fetch_and(value: u64, ordering: Ordering) -> u64;
    fetch_or(value: u64, ordering: Ordering) -> u64;
    fetch_max(value: u64, ordering: Ordering) -> u64;
    fetch_min(value: u64, ordering: Ordering) -> u64;
}
