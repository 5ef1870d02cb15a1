//! Figures, with what is demanded of them.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

/// What a figure has to lie within, bounds included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds(pub f64, pub f64);

impl Bounds {
    /// At most this.
    pub const fn most(most: f64) -> Self {
        Self(f64::NEG_INFINITY, most)
    }

    /// As far above as below.
    pub const fn around(middle: f64, distance: f64) -> Self {
        Self(middle - distance, middle + distance)
    }

    fn hold(self, value: f64) -> bool {
        (self.0..=self.1).contains(&value)
    }

    fn json(self) -> Value {
        // JSON has no infinity.
        json!([self.0.is_finite().then_some(self.0), self.1.is_finite().then_some(self.1)])
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_finite() {
            write!(f, "{}..{}", rounded(self.0), rounded(self.1))
        } else {
            write!(f, "<={}", rounded(self.1))
        }
    }
}

/// What is demanded of a figure: at least the floor, and what is aimed at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    pub floor: Bounds,
    pub goal: Bounds,
}

/// One figure of one case, over all rounds.
#[derive(Debug)]
pub struct Figure {
    pub name: String,
    demand: Option<Demand>,
    rounds: Vec<f64>,
}

impl Figure {
    /// The median over all rounds.
    pub fn value(&self) -> f64 {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        let middle = rounds.len() / 2;
        if rounds.len() % 2 == 1 {
            rounds[middle]
        } else {
            f64::midpoint(rounds[middle - 1], rounds[middle])
        }
    }

    /// How the figure stands to what is demanded.
    pub fn verdict(&self) -> Verdict {
        let value = self.value();
        match self.demand {
            None => Verdict::Reported,
            Some(demand) if demand.goal.hold(value) => Verdict::Goal,
            Some(demand) if demand.floor.hold(value) => Verdict::Floor,
            Some(_) => Verdict::Missed,
        }
    }

    /// One object.
    pub fn json(&self, case: &str, nodes: usize) -> Value {
        json!({
            "case": case,
            "nodes": nodes,
            "figure": self.name,
            "value": rounded(self.value()),
            "rounds": self.rounds.iter().map(|value| rounded(*value)).collect::<Vec<_>>(),
            "floor": self.demand.map(|demand| demand.floor.json()),
            "goal": self.demand.map(|demand| demand.goal.json()),
            "verdict": self.verdict().to_string(),
        })
    }

    /// One line.
    pub fn line(&self, case: &str, nodes: usize) -> String {
        let (value, verdict) = (rounded(self.value()), self.verdict());
        let demand = self
            .demand
            .map(|Demand { floor, goal }| format!("floor {floor:16} goal {goal:16} {verdict}"));
        let line = format!(
            "{case:8} {nodes:3} {:34} {value:>12} {}",
            self.name,
            demand.unwrap_or_default()
        );
        line.trim_end().to_owned()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Goal,
    Floor,
    Missed,
    /// Nothing is demanded.
    Reported,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Goal => "goal met",
            Self::Floor => "floor met",
            Self::Missed => "MISSED",
            Self::Reported => "reported",
        })
    }
}

/// The figures of one case, in the order in which they were first reported.
#[derive(Debug, Default)]
pub struct Figures {
    pub all: Vec<Figure>,
    places: BTreeMap<String, usize>,
}

impl Figures {
    /// Reports a figure of one round of which nothing is demanded.
    pub fn report(&mut self, name: &str, value: f64) {
        self.add(name, value, None);
    }

    /// Reports a figure of one round.
    pub fn demand(&mut self, name: &str, value: f64, floor: Bounds, goal: Bounds) {
        self.add(name, value, Some(Demand { floor, goal }));
    }

    fn add(&mut self, name: &str, value: f64, demand: Option<Demand>) {
        let place = *self.places.entry(name.to_owned()).or_insert_with(|| {
            self.all.push(Figure { name: name.to_owned(), demand, rounds: Vec::new() });
            self.all.len() - 1
        });
        self.all[place].rounds.push(value);
    }
}

/// Four digits behind the point, or as many as a small number needs.
fn rounded(value: f64) -> f64 {
    let places = if value.abs() < 0.01 { 1e7 } else { 1e4 };
    (value * places).round() / places
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Figures, Verdict};

    #[test]
    fn the_median_decides() {
        let mut figures = Figures::default();
        for value in [3.0, -0.2, 0.05] {
            figures.demand("total", value, Bounds::around(0.0, 0.3), Bounds::around(0.0, 0.1));
            figures.report("other", value);
        }
        let [total, other] = &figures.all[..] else { panic!("two figures") };
        assert_eq!((total.verdict(), other.verdict()), (Verdict::Goal, Verdict::Reported));
        figures.demand("total", -0.31, Bounds::around(0.0, 0.3), Bounds::around(0.0, 0.1));
        figures.demand("total", -0.31, Bounds::around(0.0, 0.3), Bounds::around(0.0, 0.1));
        assert_eq!(figures.all[0].verdict(), Verdict::Floor);
        assert_eq!(figures.all[0].json("even", 3)["value"], -0.2);
    }
}
