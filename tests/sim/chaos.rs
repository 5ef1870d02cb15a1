//! A run: a cluster forms, faults come under load, the network heals, and then everything must be
//! as if nothing had happened.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tidegate_cluster::protocol::Options;
use tidegate_cluster::{Member, MemberState};

use crate::calm::{Calm, RECOVERY};
use crate::check::Checks;
use crate::load::{Flow, Keys, Wander};
use crate::network::Conditions;
use crate::node::Node;
use crate::options::Args;
use crate::plan::{Fault, NEW_PLACES, Plan};
use crate::report::Report;
use crate::rules::{EVEN, Rule};
use crate::time::{MS, Nanos, SECOND, seconds};
use crate::world::{Setup, World};

/// Until all nodes have joined and know each other: at least, and where handshakes are lost at
/// most.
const FORMING: Nanos = 3 * SECOND;
const FORMING_AT_MOST: Nanos = 30 * SECOND;
/// Checkers look this often.
const SAMPLE: Nanos = SECOND / 4;
/// Load goes on after the last fault.
const AFTER: Nanos = 2 * SECOND;
/// Even demand of twice the limit, at last.
const EVENING: Nanos = 6 * SECOND;
const TWICE: f64 = 2.0;
/// Concurrently, demand a little above the limit, of which one node has most: but not the limit.
const LITTLE_ABOVE: f64 = 1.1;
const ONES: f64 = 0.8;
/// Until the last frame has arrived.
const DRAIN: Nanos = 2 * SECOND;
/// How long nodes may take to send all that they have admitted, where bytes are capped.
const CAPPED: Nanos = 600 * SECOND;

/// Separates the plan's randomness from the world's.
const PLAN: u64 = 0x70_6c61_6e00;

/// Numbers of keys, with [`EVEN`].
const HOT: u64 = 2;
const UNEVEN: u64 = 3;
const COOL: u64 = 100;
const COOL_KEYS: u64 = 8;

/// The limits, by their indices.
const FAST: usize = 0;
const MINUTE: usize = 1;
const HOUR: usize = 2;
const SPRAYED: usize = 3;
const SPRAYED_KEYS: usize = 16_384;

/// Simulates one seed.
pub fn run(args: &Args, seed: u64, mut checks: Checks) -> Report {
    let plan = plan(args, seed);
    let mut report = Report { options: format!("{plan:?}"), ..Report::default() };
    let mut run = Run { world: World::new(setup(args, seed, &plan)), flows: Vec::new() };
    run.form(&plan, &mut checks);
    run.chaos(&plan, &mut checks);
    run.peace(&mut checks);
    let world = &run.world;
    report.figure("nodes", plan.nodes);
    report.figure("faults", plan.faults.len());
    report.figure("messages", world.net.messages);
    report.share("simulated_seconds", seconds(world.now()));
    checks.each(|check| check.figures(&mut report));
    report.failures = checks.failures();
    report
}

fn plan(args: &Args, seed: u64) -> Plan {
    Plan::draw(args, &mut ChaCha8Rng::seed_from_u64(seed ^ PLAN))
}

/// What a seed chooses, in words.
pub fn describe(args: &Args, seed: u64) -> String {
    format!("{:?}", plan(args, seed))
}

fn setup(args: &Args, seed: u64, plan: &Plan) -> Setup {
    Setup {
        seed,
        rules: vec![
            Rule { comes_with_checks: plan.several_quotas, ..Rule::fast() },
            Rule::minute(),
            Rule::hour(),
            Rule::sprayed(SPRAYED_KEYS),
        ],
        conditions: plan.conditions.clone(),
        flush: plan.flush,
        skew: plan.skew,
        ppm: plan.ppm,
        options: Options { byte_cap: args.byte_cap, ..options(plan) },
        is_traced: args.trace,
        cpu: None,
    }
}

fn options(plan: &Plan) -> Options {
    let known = Options::default();
    let log_age = plan.log_age.unwrap_or(known.log_age);
    let backlog_keys = plan.backlog.unwrap_or(known.backlog_keys);
    Options { found_after: plan.found_after, log_age, backlog_keys, ..known }
}

struct Run {
    world: World,
    /// Clients of the chaos, to be turned off.
    flows: Vec<usize>,
}

impl Run {
    fn form(&mut self, plan: &Plan, checks: &mut Checks) {
        self.world.start(0, &[]);
        for place in 1..plan.nodes {
            self.world.pass(30 * MS, checks);
            self.world.start(place, &[0]);
        }
        self.pass_to(FORMING, checks);
        while !self.is_formed(plan.nodes) && self.world.now() < FORMING_AT_MOST {
            self.pass_to(self.world.now() + SAMPLE, checks);
        }
        self.world.calm = Calm::default();
    }

    /// Whether each node holds all of them alive. One that has founded alone, as its handshakes
    /// were lost, does not.
    fn is_formed(&self, nodes: usize) -> bool {
        let is_alive = |member: &Member| member.state == MemberState::Alive;
        let knows_all = |node: &Node| {
            node.has_joined()
                && node.members().iter().filter(|m| is_alive(m)).count() == nodes
                && node.flows_to(self.world.now()) == nodes - 1
        };
        (0..nodes).all(|place| self.world.node(place).is_some_and(knows_all))
    }

    /// Runs, and lets the checkers look now and then.
    fn pass_to(&mut self, until: Nanos, checks: &mut Checks) {
        while self.world.now() < until {
            let next = (self.world.now() / SAMPLE + 1) * SAMPLE;
            self.world.run(next.min(until), checks);
            checks.each(|check| check.sample(&mut self.world));
        }
    }

    fn chaos(&mut self, plan: &Plan, checks: &mut Checks) {
        let began = self.world.now();
        self.begin_load(plan);
        self.world.begin_entering(plan.enter_every);
        self.world.begin_giving_back(plan.gives_back.unwrap_or(0.0));
        self.world.begin_resetting(plan.resets.unwrap_or(0.0));
        self.world.begin_thread_waits(plan.thread_waits.unwrap_or(0));
        for (at, fault) in &plan.faults {
            self.pass_to(began + at, checks);
            self.apply(fault);
        }
        self.pass_to(began + plan.chaos, checks);
        for (from, to) in self.world.net.cuts() {
            self.world.mend(from, to);
        }
        // Alone, a node shows nothing.
        if self.world.live().len() == 1 {
            let place = (0..plan.nodes).find(|place| self.world.node(*place).is_none());
            self.apply(&Fault::Start(place.unwrap_or(plan.nodes)));
        }
        let calm = Conditions { loss: 0.0, doubled: 0.0, ..plan.conditions.clone() };
        self.world.net.set_conditions(calm);
        self.pass_to(began + plan.chaos + AFTER, checks);
        self.world.begin_entering(0);
        self.world.begin_giving_back(0.0);
        self.world.begin_resetting(0.0);
        self.world.begin_thread_waits(0);
        for flow in &self.flows {
            self.world.ask(*flow, false);
        }
    }

    fn begin_load(&mut self, plan: &Plan) {
        let places = plan.nodes;
        let fast = Rule::fast().rate() / places as f64;
        let wander = plan.wander.map(|every| Wander { every, places, seed: 1 });
        let cool = Keys::Any { first: COOL, count: COOL_KEYS };
        for place in 0..places + NEW_PLACES {
            // Those that start later bring little demand with them.
            let fast = if place < places { fast } else { fast / 4.0 };
            let flow = |rule, keys, cost: u64, units: f64| Flow {
                place,
                rule,
                keys,
                cost,
                rate: units / cost as f64,
                is_even: false,
                wander: None,
            };
            let minute = Rule::minute().rate() / places as f64;
            let hour = 10.0 / places as f64;
            let flows = [
                Flow { wander, ..flow(FAST, Keys::One(HOT), 20, plan.hot * fast) },
                Flow { wander, ..flow(FAST, cool, 50, 0.5 * fast * COOL_KEYS as f64) },
                flow(MINUTE, Keys::One(EVEN), 4, 2.0 * minute),
                flow(MINUTE, Keys::One(COOL), 4, 0.7 * minute),
                flow(HOUR, Keys::One(HOT), 4, hour),
            ];
            self.flows.extend(flows.map(|flow| self.world.add_flow(flow)));
        }
        if let Some(rate) = plan.spray {
            let flow = Flow {
                place: 0,
                rule: SPRAYED,
                keys: Keys::New { next: 1 << 32 },
                cost: 1,
                rate,
                is_even: false,
                wander: None,
            };
            self.flows.push(self.world.add_flow(flow));
        }
        for flow in &self.flows {
            self.world.ask(*flow, true);
        }
    }

    fn apply(&mut self, fault: &Fault) {
        let world = &mut self.world;
        let staying = |world: &World| {
            let live = world.live().into_iter();
            live.filter(|n| world.node(*n).is_some_and(|n| !n.is_leaving())).count()
        };
        let is_there = |world: &World, place: usize| world.node(place).is_some();
        match fault {
            Fault::Cut(pairs) => pairs.iter().for_each(|(from, to)| world.cut(*from, *to)),
            Fault::Mend(pairs) => pairs.iter().for_each(|(from, to)| world.mend(*from, *to)),
            Fault::Stop(place, time) => world.stop(*place, *time),
            Fault::Crash(place) => {
                if is_there(world, *place) && staying(world) > 1 {
                    world.crash(*place);
                }
            }
            Fault::Start(place) => {
                if !is_there(world, *place) {
                    let others: Vec<_> = world.live();
                    world.start(*place, &others);
                }
            }
            Fault::Leave(place) => {
                let can = world.node(*place).is_some_and(|node| !node.is_stopped());
                if can && staying(world) > 1 {
                    world.leave(*place);
                }
            }
        }
    }

    /// Where bytes are capped, waits until all that nodes have admitted is acknowledged.
    fn wait_for_capped(&mut self, checks: &mut Checks) {
        let until = self.world.now() + CAPPED;
        let is_sent = |world: &World| {
            let live = world.live().into_iter();
            live.filter_map(|place| world.node(place)).all(Node::is_acknowledged)
        };
        let is_capped = self.world.setup().options.byte_cap.is_some();
        while is_capped && self.world.now() < until && !is_sent(&self.world) {
            self.pass_to(self.world.now() + SAMPLE, checks);
        }
    }

    fn peace(&mut self, checks: &mut Checks) {
        let healed = self.world.calm.healed;
        self.pass_to(self.world.now().max(healed + RECOVERY), checks);
        self.wait_for_capped(checks);
        self.world.rebase();
        checks.each(|check| check.calm_begins(&mut self.world));
        let live = self.world.live();
        let mut flows = Vec::new();
        for place in &live {
            for (rule, cost) in [(Rule::fast(), 10), (Rule::minute(), 2)] {
                let units = TWICE * rule.rate() / live.len() as f64;
                let flow = Flow {
                    place: *place,
                    rule: if rule.name == Rule::fast().name { FAST } else { MINUTE },
                    keys: Keys::One(EVEN),
                    cost,
                    rate: units / cost as f64,
                    is_even: false,
                    wander: None,
                };
                flows.push(self.world.add_flow(flow));
            }
            let others = live.len() - 1;
            // What a node consumes at once is little, or it is sent at once.
            let is_first = *place == live[0];
            let (part, cost) =
                if is_first { (ONES, 20) } else { ((1.0 - ONES) / others as f64, 4) };
            flows.push(self.world.add_flow(Flow {
                place: *place,
                rule: FAST,
                keys: Keys::One(UNEVEN),
                cost,
                rate: LITTLE_ABOVE * Rule::fast().rate() * part / cost as f64,
                is_even: false,
                wander: None,
            }));
        }
        for flow in &flows {
            self.world.ask(*flow, true);
        }
        self.pass_to(self.world.now() + EVENING, checks);
        checks.each(|check| check.calm_ends(&mut self.world));
        for flow in &flows {
            self.world.ask(*flow, false);
        }
        self.pass_to(self.world.now() + DRAIN, checks);
        self.wait_for_capped(checks);
        checks.each(|check| check.finish(&mut self.world));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_seed_is_always_the_same_run() {
        let args = Args::parse_from(["sim"]);
        let figures = || {
            let checks = Checks::without(&[]).expect("all are known");
            let report = run(&args, 1, checks);
            (report.line(), format!("{:?}", report.failures))
        };
        assert_eq!(figures(), figures());
    }
}
