//! std's atomics, with a hook of the running thread called before each operation.

use std::cell::RefCell;
use std::sync::atomic::{self, Ordering};

type Hook = Box<dyn FnMut()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Calls `hook` before each atomic operation of this thread in `run`. The hook performs none
/// itself; it may unwind.
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

fn step() {
    // While a thread's local storage is destroyed it has no hook.
    let _ = HOOK.try_with(|hook| {
        if let Some(hook) = &mut *hook.borrow_mut() {
            hook();
        }
    });
}

#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct AtomicU64(atomic::AtomicU64);

macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
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
    compare_exchange(from: u64, to: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
}
