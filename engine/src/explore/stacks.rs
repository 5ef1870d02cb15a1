//! A pool of the stacks of loom's threads.
//!
//! loom maps a stack for each thread of each run, and unmaps it at the end of the run. The system
//! takes as long for that as loom for the run itself, so an unmapped stack goes to this pool, and
//! the next `mmap` of that length takes it out. To that end this executable defines `mmap` and
//! `munmap`: the linker resolves these names in the executable first, so its crates call the
//! functions below. The C library calls its own, also in the allocator, which this executable uses:
//! so memory may be allocated while the pool is locked.
//!
//! A stack is a mapping that was made here by one call with the flags of a stack. Only loom's
//! threads map with these flags in this executable. They unmap a stack by one call, as a whole, and
//! map nothing over it. So a stack in the pool is in use by no thread.

use std::ffi::{c_int, c_long, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stacks that are kept, at most: those of a few runs at the same time.
const MAX_KEPT: usize = 64;

const PROTECTION: c_int = libc::PROT_READ | libc::PROT_WRITE;
const FLAGS: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;

static STACKS: Mutex<Stacks> = Mutex::new(Stacks { used: Vec::new(), kept: Vec::new(), again: 0 });

/// Mappings with these flags, anywhere: their addresses and lengths.
#[derive(Debug)]
struct Stacks {
    used: Vec<(usize, usize)>,
    kept: Vec<(usize, usize)>,
    /// How many were used again.
    again: u64,
}

impl Stacks {
    fn lock() -> MutexGuard<'static, Self> {
        STACKS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stack of this length that is kept, from here on used.
    fn take(&mut self, length: usize) -> Option<usize> {
        let place = self.kept.iter().rposition(|(_, kept)| *kept == length)?;
        let stack = self.kept.swap_remove(place);
        self.used.push(stack);
        self.again += 1;
        Some(stack.0)
    }

    /// Whether this is a stack, and kept from here on instead of unmapped.
    fn keep(&mut self, stack: (usize, usize)) -> bool {
        let Some(place) = self.used.iter().rposition(|used| *used == stack) else { return false };
        self.used.swap_remove(place);
        let has_room = self.kept.len() < MAX_KEPT;
        if has_room {
            self.kept.push(stack);
        }
        has_room
    }
}

/// As of the C library.
///
/// A stack that was used before contains what it contained, and its guard page still is one; a
/// thread that is given it writes before it reads, and protects its guard page again.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let is_stack = address.is_null() && (protection, flags) == (PROTECTION, FLAGS);
    let kept = if is_stack { Stacks::lock().take(length) } else { None };
    if let Some(stack) = kept {
        // It is mapped, as nothing unmaps what is kept, and no other caller has it.
        return std::ptr::with_exposed_provenance_mut(stack);
    }
    let word = |value: c_int| c_long::from(value);
    let (protection, flags, file) = (word(protection), word(flags), word(file));
    // SAFETY: the system is called with what the caller asks for, which answers for it.
    let mapped =
        unsafe { libc::syscall(libc::SYS_mmap, address, length, protection, flags, file, offset) };
    let mapped = std::ptr::with_exposed_provenance_mut(mapped as usize);
    if is_stack && mapped != libc::MAP_FAILED {
        Stacks::lock().used.push((mapped.expose_provenance(), length));
    }
    mapped
}

/// As of the C library, but for a stack that is kept.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    if Stacks::lock().keep((address.expose_provenance(), length)) {
        return 0;
    }
    // SAFETY: the system is called with what the caller asks for, which answers for it. It is no
    // stack that is kept: those are listed as used only while a caller has them.
    unsafe { libc::syscall(libc::SYS_munmap, address, length) as c_int }
}

mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};

    use super::Stacks;

    #[test]
    fn a_stack_serves_one_run_after_the_other() {
        let before = Stacks::lock().again;
        crate::explore::explore(Some(1), || {
            let word = Arc::new(AtomicU64::new(0));
            let other = Arc::clone(&word);
            let thread = loom::thread::spawn(move || other.store(1, Ordering::Relaxed));
            word.store(2, Ordering::Relaxed);
            thread.join().unwrap();
        });
        assert!(Stacks::lock().again > before, "mapping stacks takes as long as all else");
    }
}
