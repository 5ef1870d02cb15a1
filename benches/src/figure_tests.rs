use std::path::Path;

use super::*;
use crate::samples;

#[test]
fn the_figure_is_well_formed_and_names_every_row() {
    let lines = samples::lines();
    let text = draw(&lines).expect("figures");
    let document = roxmltree::Document::parse(&text).expect("well-formed");
    let texts: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text())
        .collect();
    for line in &lines {
        let (label, figure) = match line {
            Line::Run(Run { machine, .. }) => {
                assert!(texts.iter().any(|text| text.contains(machine.as_str())), "{texts:?}");
                continue;
            }
            Line::Absence(_) => continue,
            Line::Speed(Speed { label, ratio, .. }) => (label, two_digits(*ratio)),
            Line::Memory(Memory { label, bytes_per_key, .. }) => {
                (label, format!("{bytes_per_key:.1} B"))
            }
        };
        assert!(texts.contains(&label.to_string().as_str()), "{label}: {texts:?}");
        assert!(texts.iter().any(|text| text.starts_with(&figure)), "{figure}: {texts:?}");
    }
    let bars = document.descendants().filter(|node| node.has_tag_name("rect")).count();
    let background = 1;
    let drawn = lines.iter().filter(|line| matches!(line, Line::Speed(_) | Line::Memory(_)));
    assert_eq!(bars, drawn.count() + background);
}

#[test]
fn several_runs_are_distinguished() {
    let of_zipf = [samples::run(), samples::ours("zipf-1m-scattered", 1, "precise", 3.0)];
    let lines = [&of_zipf, &samples::lines()[..]].concat();
    let text = draw(&lines).expect("figures");
    for names in ["zipf-1m-scattered:<", "zipf-1m, new-key, memory:<"] {
        assert!(text.contains(names), "{text}");
    }
    assert!(!draw(&samples::lines()).expect("figures").contains(":<"));
}

#[test]
fn nothing_is_outside_of_the_page() {
    let text = draw(&samples::lines()).expect("figures");
    let document = roxmltree::Document::parse(&text).expect("well-formed");
    let number = |node: &roxmltree::Node<'_, '_>, name| -> Option<f64> {
        node.attribute(name).map(|value| value.parse().unwrap_or(f64::NAN))
    };
    let height = number(&document.root_element(), "height").expect("a height");
    for node in document.descendants().filter(|node| node.attribute("y").is_some()) {
        let (x, y) = (number(&node, "x").expect("x"), number(&node, "y").expect("y"));
        let right = x + number(&node, "width").unwrap_or(0.0);
        assert!((0.0..=WIDTH).contains(&x) && right <= WIDTH, "{node:?}");
        assert!((0.0..height).contains(&y), "{node:?}");
    }
}

#[test]
fn without_figures_there_is_nothing_to_draw() {
    assert!(draw(&[samples::run()]).is_err());
}

/// After a new recording: `cargo run --release -p tidegate-benches --bin figure`.
#[test]
fn the_published_figures_are_drawn_from_what_is_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let lines = crate::record::read(&root.join(crate::published::RECORD)).expect("a recording");
    let highlights = crate::highlights::of(&lines);
    for (path, lines) in
        [(crate::published::FIGURE, &highlights), (crate::published::FULL_FIGURE, &lines)]
    {
        let published = std::fs::read_to_string(root.join(path)).expect("a figure");
        assert!(draw(lines).expect("figures") == published, "run `figure`");
    }
}
