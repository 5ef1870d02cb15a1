//! Zeroed, cache-line aligned memory that costs nothing until it is touched.

#[cfg(not(loom))]
pub(super) use lazy::Memory;
#[cfg(loom)]
pub(super) use modelled::Memory;

#[cfg(not(loom))]
mod lazy {
    use alloc::alloc::{Layout, alloc_zeroed, dealloc};
    use core::ptr::NonNull;

    use crate::table::line::CacheLine;

    /// The size of the system's huge pages: a table of at least one is aligned to it.
    const HUGE_PAGE_BYTES: usize = 2 << 20;
    /// At this alignment allocators return fresh zero pages untouched; at a larger one they write
    /// the zeros themselves.
    const NATURAL_ALIGN: usize = 8;

    #[derive(Debug)]
    pub(in crate::table) struct Memory {
        allocation: NonNull<u8>,
        layout: Layout,
        first: NonNull<CacheLine>,
        count: usize,
    }

    impl Memory {
        pub(in crate::table) fn zeroed(count: usize) -> Option<Self> {
            let bytes = count.checked_mul(size_of::<CacheLine>()).filter(|bytes| *bytes > 0)?;
            let align =
                if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { align_of::<CacheLine>() };
            let layout = Layout::from_size_align(bytes.checked_add(align)?, NATURAL_ALIGN).ok()?;
            // SAFETY: the layout's size is not zero, `bytes` is not.
            let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
            let skip = allocation.align_offset(align);
            debug_assert!(skip <= align);
            // SAFETY: `skip` is below `align` and the allocation is `align` bytes longer than the
            // lines, so the result and all `bytes` after it are inside the allocation.
            let first = unsafe { allocation.add(skip) };
            advise_huge_pages(first, bytes);
            Some(Self { allocation, layout, first: first.cast(), count })
        }

        #[inline]
        pub(in crate::table) fn lines(&self) -> &[CacheLine] {
            // SAFETY: `first` is aligned for `CacheLine` and `count` lines are inside the
            // allocation, which lives as long as `self`. Zeroed bytes are valid lines: they hold
            // only atomic integers. No mutable reference to them exists.
            unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.count) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: allocated in `zeroed` by the same allocator with the same layout, and freed
            // once.
            unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
        }
    }

    // SAFETY: the memory is owned by `Memory` alone and moves with it.
    unsafe impl Send for Memory {}
    // SAFETY: shared access hands out only `&CacheLine`, and a line holds only atomics, which are
    // `Sync`.
    unsafe impl Sync for Memory {}

    /// Asks for huge pages, which cost fewer address translations. A refusal costs speed only.
    fn advise_huge_pages(first: NonNull<u8>, bytes: usize) {
        #[cfg(target_os = "linux")]
        if bytes >= HUGE_PAGE_BYTES {
            let whole = bytes - bytes % HUGE_PAGE_BYTES;
            // SAFETY: the range is inside this allocation and begins on a page boundary; the advice
            // changes no contents.
            unsafe { libc::madvise(first.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (first, bytes);
    }
}

#[cfg(loom)]
mod modelled {
    use crate::base::sync::AtomicU64;
    use crate::table::line::{CacheLine, Slot};

    /// loom's atomics are objects, not plain integers.
    #[derive(Debug)]
    pub(in crate::table) struct Memory(Vec<CacheLine>);

    impl Memory {
        pub(in crate::table) fn zeroed(count: usize) -> Option<Self> {
            let zeroed = || Slot { tag: AtomicU64::new(0), word: AtomicU64::new(0) };
            let line = || CacheLine { slots: core::array::from_fn(|_| zeroed()) };
            Some(Self((0..count).map(|_| line()).collect()))
        }

        pub(in crate::table) fn lines(&self) -> &[CacheLine] {
            &self.0
        }
    }
}
