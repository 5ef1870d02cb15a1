//! What a change of a `LiveQuota` costs in time, while another thread goes on checking.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use tidegate_engine::rule::Inheritance;
use tidegate_engine::{KeyHash, KeyHasher, Limiter, LiveQuota, Quota};

/// Times changes of the quota of a limiter whose keys all owe something, and the checks of another
/// thread meanwhile
#[derive(Debug, Parser)]
#[command(name = "change")]
struct Options {
    /// Numbers of live keys
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = KEYS)]
    keys: Vec<usize>,
    /// Changes that are timed
    #[arg(long, value_name = "N", default_value_t = 15)]
    changes: usize,
    /// Seed of the keys that are checked
    #[arg(long, value_name = "N", default_value_t = 20_261_121)]
    seed: u64,
}

const KEYS: [usize; 2] = [1_000_000, 10_000_000];

/// The changes go to and fro between these two. Half a burst, charged to each key at first, takes
/// half a day to drain.
const QUOTAS: [Quota; 2] =
    [Quota::new(10_000, Duration::from_hours(24)), Quota::new(11_000, Duration::from_hours(24))];

/// For how long checks without changes are counted, before the changes and after them.
const WITHOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let options = Options::parse();
    match options.keys.iter().try_for_each(|keys| measure(*keys, &options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed too, the exit code must suffice.
            let _ = writeln!(io::stderr(), "change: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(keys: usize, options: &Options) -> Result<(), Box<dyn Error>> {
    let hasher = KeyHasher::rapid(options.seed);
    let limiter = Limiter::builder(LiveQuota::new(QUOTAS[0])).capacity(keys).build()?;
    let key = |index| hasher.hash_u64(index);
    for index in 0..keys as u64 {
        if !limiter.check_n(key(index), QUOTAS[0].burst_size() / 2).is_allowed() {
            return Err("a new key was denied".into());
        }
    }
    let live = limiter.live().count();
    let (checks, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut times, rates) = thread::scope(|scope| {
        scope.spawn(|| check_until(&done, &checks, &limiter, keys, options.seed, key));
        let timed = timed(&limiter, options.changes, &checks);
        done.store(true, Ordering::Relaxed);
        timed
    })?;
    times.sort_unstable();
    let [without, meanwhile] = rates;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    writeln!(
        io::stdout().lock(),
        "{live} live keys: {:.1} ms a change (median of {}, {:.1} to {:.1}); {:.1} million checks \
         a second meanwhile, {:.0} % of the {:.1} without changes",
        millis(times[times.len() / 2]),
        times.len(),
        millis(times[0]),
        millis(times[times.len() - 1]),
        meanwhile / 1e6,
        100.0 * meanwhile / without,
        without / 1e6,
    )?;
    Ok(())
}

/// Checks keys at random, and counts them.
fn check_until(
    done: &AtomicBool,
    checks: &AtomicU64,
    limiter: &Limiter<LiveQuota>,
    keys: usize,
    seed: u64,
    key: impl Fn(u64) -> KeyHash,
) {
    const AT_ONCE: u64 = 100;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..AT_ONCE {
            let _ = limiter.check(key(random.random_range(0..keys as u64)));
        }
        checks.fetch_add(AT_ONCE, Ordering::Relaxed);
    }
}

type Timed = Result<(Vec<Duration>, [f64; 2]), Box<dyn Error>>;

/// How long each change took, and the checks a second without changes and meanwhile.
fn timed(limiter: &Limiter<LiveQuota>, changes: usize, checks: &AtomicU64) -> Timed {
    let mut times = Vec::new();
    let counted = |over: &mut dyn FnMut() -> Result<(), Box<dyn Error>>| {
        let (before, start) = (checks.load(Ordering::Relaxed), Instant::now());
        over()?;
        let counted = checks.load(Ordering::Relaxed) - before;
        Ok::<_, Box<dyn Error>>((counted as f64, start.elapsed().as_secs_f64()))
    };
    let mut pause = || {
        thread::sleep(WITHOUT);
        Ok(())
    };
    let before = counted(&mut pause)?;
    let (meanwhile, seconds) = counted(&mut || {
        for change in 1..=changes.max(1) {
            let start = Instant::now();
            limiter.set_quota(QUOTAS[change % 2], Inheritance::Proportional)?;
            times.push(start.elapsed());
        }
        Ok(())
    })?;
    let after = counted(&mut pause)?;
    let without = (before.0 + after.0) / (before.1 + after.1);
    Ok((times, [without, meanwhile / seconds]))
}
