//! Shadows in sets that wait.

use std::time::Duration;

use tidegate_engine::{Clock, DirectLimiter, LimitSet, Quota, Shadow};

use crate::set_acquire::{limiter, run};
use crate::waiting::{ManualTimer, Task};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Whatever a shadow would decide, the set waits for the enforced limits and is charged there.
#[test]
fn a_shadow_neither_admits_a_waiting_set_nor_delays_it() {
    for (quota, cost) in [
        (Quota::blocked(), 1),
        (Quota::per_hour(1), 1),
        (Quota::per_second(2).burst(1), 1),
        (Quota::per_second(1).burst(1), 2),
    ] {
        for direct in [false, true] {
            let timer = ManualTimer::new();
            let host = limiter(Quota::per_second(20).burst(1), &timer);
            let rule = Quota::per_second(20).burst(1);
            let single = DirectLimiter::builder(rule).clock(timer.clock.clone()).build().unwrap();
            let shadow = Shadow::new(limiter(quota, &timer));
            let begun = timer.clock.now();
            for started in 0..40_u32 {
                let enforced = if direct { single.ask(1) } else { host.ask("k", 1) };
                let set = LimitSet::new([enforced, shadow.ask("k", cost)]);
                let mut task = Task::new(set.acquire_on(&timer, 2 * SECOND));
                let decision = task.poll();
                let decision = decision.unwrap_or_else(|| run(&timer, MILLISECOND, &mut task).0);
                assert!(decision.is_allowed());
                let passed = timer.clock.now().since(begun);
                let expected = started * SECOND / 20;
                let late = expected + 2 * MILLISECOND * started;
                assert!(passed >= expected && passed <= late, "{started}: {passed:?}");
            }
            let counts = shadow.counts();
            assert_eq!(counts.allowed + counts.denied, 40);
            let most = if quota.is_blocked() || cost == 2 { 0 } else { 5 };
            assert!(counts.allowed <= most, "{counts:?}");
            // Charged, and no caller is left in line.
            assert!(!host.check("k").is_allowed() || direct);
            assert!(direct != single.check().is_allowed());
            assert_eq!((host.waiters(), shadow.limit().waiters()), (0, 0));
        }
    }
}

#[test]
fn a_set_that_is_denied_leaves_a_shadow_alone() {
    let timer = ManualTimer::new();
    let host = limiter(Quota::per_hour(1), &timer);
    let shadow = Shadow::new(limiter(Quota::per_hour(1), &timer));
    assert!(host.check("k").is_allowed());
    let set = LimitSet::new([shadow.ask("k", 2), host.ask("k", 1).named("host")]);
    let denied = Task::new(set.acquire_on(&timer, SECOND)).poll().unwrap();
    assert_eq!(denied.blocked().map(|blocked| blocked.name()), Some("host"));
    let counts = shadow.counts();
    assert_eq!((counts.allowed, counts.denied, shadow.limit().peek("k").remaining()), (0, 0, 1));
}
