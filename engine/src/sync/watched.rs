//! std's atomics, with a hook of the running thread called before each operation.

use std::cell::RefCell;
use std::sync::atomic::{self, Ordering};

type Hook = Box<dyn FnMut()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Calls `hook` before each atomic operation that this thread makes in `run`. The hook makes none
/// itself; it may stop the thread or unwind.
pub(crate) fn watch<R>(hook: impl FnMut() + 'static, run: impl FnOnce() -> R) -> R {
    /// Takes the hook away also when `run` unwinds.
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
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
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
    compare_exchange_weak(from: u64, to: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
    fetch_add(value: u64, ordering: Ordering) -> u64;
    fetch_sub(value: u64, ordering: Ordering) -> u64;
    fetch_and(value: u64, ordering: Ordering) -> u64;
    fetch_or(value: u64, ordering: Ordering) -> u64;
    fetch_max(value: u64, ordering: Ordering) -> u64;
    fetch_min(value: u64, ordering: Ordering) -> u64;
}
