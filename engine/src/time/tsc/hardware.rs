//! The counter and the clock of the machine at hand.

use std::sync::OnceLock;

use super::checked::{Rate, TickSource};

#[derive(Clone, Debug)]
pub(super) struct Hardware {
    counter: quanta::Clock,
    system: System,
}

impl Hardware {
    pub(super) fn new() -> Self {
        // Asking the processor what it has takes microseconds in a virtual machine.
        static COUNTER: OnceLock<quanta::Clock> = OnceLock::new();
        let counter = COUNTER.get_or_init(quanta::Clock::new).clone();
        Self { counter, system: System::new() }
    }

    /// The counter's rate; `None` where it cannot be trusted.
    pub(super) fn rate(&self) -> Option<Rate> {
        let nanos = self.counter.delta_as_nanos(0, 1 << Rate::TICKS_BITS);
        // A source that counts nanoseconds is quanta's substitute for a counter.
        let substitute = nanos == 1 << Rate::TICKS_BITS;
        if substitute || rejected_by_kernel() { None } else { Rate::new(nanos) }
    }
}

impl TickSource for Hardware {
    /// What `quanta` reads where it trusts the counter, without checking that each time.
    #[inline]
    #[cfg(target_arch = "x86_64")]
    fn ticks(&self) -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[inline]
    #[cfg(not(target_arch = "x86_64"))]
    fn ticks(&self) -> u64 {
        self.counter.raw()
    }

    fn system_nanos(&self) -> u64 {
        self.system.nanos()
    }
}

/// Whether Linux had found the time-stamp counter unstable when this was first asked: it then no
/// longer lists it. A counter that it rejects later is detected by comparisons.
fn rejected_by_kernel() -> bool {
    static REJECTED: OnceLock<bool> = OnceLock::new();
    *REJECTED.get_or_init(is_unlisted)
}

/// Where the list cannot be read, comparisons alone decide.
fn is_unlisted() -> bool {
    const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
        && std::fs::read_to_string(AVAILABLE).is_ok_and(|sources| !lists_tsc(&sources))
}

fn lists_tsc(sources: &str) -> bool {
    sources.split_whitespace().any(|source| source == "tsc")
}

#[cfg(target_os = "linux")]
use raw::System;

#[cfg(target_os = "linux")]
mod raw {
    /// The clock that time adjustments leave alone, or the adjusted one where there is none.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct System(libc::clockid_t);

    impl System {
        pub(super) fn new() -> Self {
            let raw = read(libc::CLOCK_MONOTONIC_RAW).map(|_| libc::CLOCK_MONOTONIC_RAW);
            Self(raw.unwrap_or(libc::CLOCK_MONOTONIC))
        }

        pub(super) fn nanos(self) -> u64 {
            // A clock that could be read goes on being readable.
            read(self.0).unwrap_or_default()
        }
    }

    fn read(clock: libc::clockid_t) -> Option<u64> {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is a valid place for one timespec, which is all that the call writes to.
        let status = unsafe { libc::clock_gettime(clock, &raw mut now) };
        (status == 0).then(|| now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }
}

#[cfg(not(target_os = "linux"))]
use steady::System;

#[cfg(not(target_os = "linux"))]
mod steady {
    use std::time::Instant;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct System(Instant);

    impl System {
        pub(super) fn new() -> Self {
            Self(Instant::now())
        }

        pub(super) fn nanos(self) -> u64 {
            self.0.elapsed().as_nanos() as u64
        }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_counter_is_not_listed() {
        assert!(lists_tsc("tsc kvm-clock \n"));
        assert!(lists_tsc("kvm-clock tsc acpi_pm\n"));
        assert!(!lists_tsc("hyperv_clocksource_tsc_page acpi_pm\n"));
        assert!(!lists_tsc("tsc-early hpet\n"));
        assert!(!lists_tsc(""));
    }
}
