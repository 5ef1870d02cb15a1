//! The behaviour of a full table: evictions at the intended fill, and key sprays.
//!
//! Both run on a manual clock, so figures depend only on the seed. And the time to build tables.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use tidegate_engine::{KeyHash, KeyHasher, Limiter, ManualClock, Quota};

/// Shows the behaviour of a full table.
#[derive(Debug, Parser)]
#[command(name = "table")]
struct Options {
    /// Seed of all keys
    #[arg(long, global = true, value_name = "N", default_value_t = 20_261_121)]
    seed: u64,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Command {
    /// Counts forced evictions while a table is filled to 80 % of its slots, then while keys expire
    /// and new ones arrive at random, at the same fill
    Fill {
        /// Number of live keys
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        keys: usize,
        /// How often every key is replaced, on average
        #[arg(long, value_name = "N", default_value_t = 10)]
        turnovers: u32,
    },
    /// Times building and dropping limiters, the first not counted: it calibrates the clock
    Build {
        /// Capacity of each in keys
        #[arg(long, value_name = "N", default_value_t = 64)]
        keys: usize,
        /// How many are built in a round
        #[arg(long, value_name = "N", default_value_t = 1_000)]
        limiters: u32,
    },
    /// Sprays ten times as many keys as the capacity while 50 keys are being denied, and shows how
    /// many of the checks that their quota denies are denied
    Spray {
        /// Capacity of the table in keys
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        keys: usize,
        /// How often each sprayed key is checked
        #[arg(long, value_name = "N", default_value_t = 1)]
        checks: u32,
        /// How often a limited key is checked per turnover of the table
        #[arg(long, value_name = "N", default_value_t = 100)]
        visits: usize,
    },
}

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let Options { seed, command } = Options::parse();
    let outcome = match command {
        Command::Fill { keys, turnovers } => fill(keys, turnovers, seed),
        Command::Build { keys, limiters } => build(keys, limiters),
        Command::Spray { keys, checks, visits } => sprays(keys, checks, visits, seed),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed too, the exit code must suffice.
            let _ = writeln!(io::stderr(), "table: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build(keys: usize, limiters: u32) -> Outcome {
    let build = || Limiter::builder(Quota::per_second(10)).capacity(keys).build();
    let first = build()?;
    let mut times = Vec::new();
    for _ in 0..BUILD_ROUNDS {
        let start = Instant::now();
        let mut limiters_of_round = Vec::new();
        for _ in 0..limiters {
            let limiter = build()?;
            let _ = limiter.check("a key");
            limiters_of_round.push(limiter);
        }
        times.push(start.elapsed() / limiters);
    }
    times.sort_unstable();
    let (median, bytes) = (times[BUILD_ROUNDS / 2], first.memory_bytes());
    println!("a limiter of {keys} keys, {bytes} bytes for them: built and checked in {median:?}");
    Ok(())
}

/// The rounds of which the median is shown.
const BUILD_ROUNDS: usize = 11;

/// Costs are lifetimes in nanoseconds: one unit refills per nanosecond.
const LIFETIMES: Quota = Quota::per_second(1_000_000_000).burst(1 << 50);
/// The average; long enough for the clock's step to be exact.
const MEAN_LIFETIME: u64 = 1 << 40;

fn fill(keys: usize, turnovers: u32, seed: u64) -> Outcome {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(LIFETIMES).capacity(keys).clock(clock.clone()).build()?;
    let keys = limiter.capacity() as u64;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut out = io::stdout().lock();
    let mut evicted = 0;
    for turnover in 0..=turnovers {
        for _ in 0..keys {
            if turnover > 0 {
                clock.advance(Duration::from_nanos(MEAN_LIFETIME / keys));
            }
            let key = KeyHash::from_bits(random.next_u64());
            if !limiter.check_n(key, lifetime(&mut random)).is_allowed() {
                return Err("a new key was denied".into());
            }
        }
        let more = limiter.evicted() - evicted;
        evicted += more;
        let name = if turnover == 0 { "filled" } else { "replaced" };
        let live = limiter.live().count();
        let fill = 80.0 * live as f64 / keys as f64;
        let share = more as f64 / keys as f64;
        writeln!(
            out,
            "{name} {turnover}: {live} live keys, {fill:.2} % of slots, \
             {more} evictions in {keys} insertions: {share:.1e}"
        )?;
    }
    let share = evicted as f64 / (keys * u64::from(turnovers + 1)) as f64;
    writeln!(out, "in all: {share:.1e} evictions an insertion")?;
    if share < 1e-4 { Ok(()) } else { Err("more than one insertion in 10 000 evicts".into()) }
}

/// Exponentially distributed, so whether a key expires does not depend on its age.
fn lifetime(random: &mut Xoshiro256PlusPlus) -> u64 {
    let uniform: f64 = random.random_range(f64::MIN_POSITIVE..1.0);
    (-uniform.ln() * MEAN_LIFETIME as f64) as u64 + 1
}

/// The quota of all keys of the spray: T is 6 s.
const QUOTA: Quota = Quota::per_minute(10);
const LIMITED: u64 = 50;

fn sprays(keys: usize, checks: u32, visits: usize, seed: u64) -> Outcome {
    let mut out = io::stdout().lock();
    for cost in [1, QUOTA.burst_size()] {
        // The share of T in which the table turns over once.
        for share in [0.02, 0.5, 4.0] {
            let turnover = QUOTA.debt_of(1).mul_f64(share);
            let Denials { due, leaked, worst, evicted } =
                spray(&Spray { keys, cost, checks, visits, turnover, seed })?;
            let denied = 100.0 * (1.0 - leaked as f64 / due as f64);
            let worst = 100.0 * (1.0 - worst);
            writeln!(
                out,
                "cost {cost:2}, {checks} checks a sprayed key, \
                 a table full of them in {turnover:?}: {evicted} evictions, \
                 {denied:.3} % of {due} denied, {worst:.3} % of the worst key's"
            )?;
        }
    }
    Ok(())
}

struct Spray {
    keys: usize,
    cost: u64,
    checks: u32,
    visits: usize,
    turnover: Duration,
    seed: u64,
}

/// The outcome of the limited keys' checks.
struct Denials {
    /// Checks that an ideal limiter denies, and those of them that were admitted.
    due: u64,
    leaked: u64,
    /// The maximum over keys of the share of such checks that was admitted.
    worst: f64,
    evicted: u64,
}

/// A key that is checked throughout, and its state in an ideal limiter.
struct Limited {
    key: KeyHash,
    tat: u64,
    due: u64,
    leaked: u64,
}

impl Limited {
    fn check(&mut self, limiter: &Limiter<Quota, ManualClock>, now: u64) {
        let interval = QUOTA.debt_of(1).as_nanos() as u64;
        let charged = self.tat.max(now) + interval;
        let allowed = limiter.check(self.key).is_allowed();
        if charged - now <= interval * QUOTA.burst_size() {
            self.tat = charged;
        } else {
            self.due += 1;
            self.leaked += u64::from(allowed);
        }
    }
}

fn spray(options: &Spray) -> Result<Denials, Box<dyn Error>> {
    let clock = ManualClock::new();
    let hasher = KeyHasher::rapid(options.seed);
    let ours = Limiter::builder(QUOTA)
        .capacity(options.keys)
        .hasher(hasher.clone())
        .clock(clock.clone())
        .build()?;
    let keys = ours.capacity();
    let limited = |index| Limited { key: hasher.hash_u64(index), tat: 0, due: 0, leaked: 0 };
    let mut limited: Vec<_> = (0..LIMITED).map(limited).collect();
    let step = options.turnover.as_nanos() as u64 / keys as u64;
    let every = (keys / options.visits / limited.len()).max(1);
    let (mut now, mut turn) = (0, 0);
    for key in &mut limited {
        for _ in 0..100 {
            key.check(&ours, now);
        }
        key.due = 0;
    }
    let step = step / u64::from(options.checks);
    for sprayed in 0..10 * keys {
        let key = hasher.hash_u64(LIMITED + sprayed as u64);
        for _ in 0..options.checks {
            now += step;
            clock.advance(Duration::from_nanos(step));
            let _ = ours.check_n(key, options.cost);
        }
        if sprayed % every == 0 {
            let count = limited.len();
            limited[turn % count].check(&ours, now);
            turn += 1;
        }
    }
    let share = |key: &Limited| key.leaked as f64 / key.due.max(1) as f64;
    Ok(Denials {
        due: limited.iter().map(|key| key.due).sum(),
        leaked: limited.iter().map(|key| key.leaked).sum(),
        worst: limited.iter().map(share).fold(0.0, f64::max),
        evicted: ours.evicted(),
    })
}
