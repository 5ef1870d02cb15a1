//! Just enough of SVG.

use core::fmt::Write as _;

/// A document that grows downwards.
pub struct Svg {
    width: f64,
    body: String,
}

/// The background is drawn too, so that the figure can be read wherever it is shown.
const STYLE: &str = "\
text{font:11px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.head{font-size:13px;font-weight:600}
.dim,.tick{fill:#59636e}.tick{font-size:9px}.figure{font-size:10px}
.page{fill:#fff}.ours{fill:#0969da}.sip{fill:#66a5ea}.reference{fill:#bc4c00}.peer{fill:#8c959f}
.grid{stroke:#d8dee4}.one{stroke:#59636e}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim,.tick{fill:#9198a1}.page{fill:#0d1117}
.ours{fill:#4493f8}.sip{fill:#2a5fa5}.reference{fill:#db6d28}.peer{fill:#6e7681}
.grid{stroke:#2a313a}.one{stroke:#9198a1}}";

impl Svg {
    pub fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// Text that begins at `x`. It must be escaped.
    pub fn text(&mut self, x: f64, y: f64, class: &str, escaped: &str) {
        self.add(&format!(r#"<text x="{x:.1}" y="{y:.1}"{}>{escaped}</text>"#, attribute(class)));
    }

    /// Text that ends at `x`. It must be escaped.
    pub fn text_to(&mut self, x: f64, y: f64, class: &str, escaped: &str) {
        let class = attribute(class);
        self.add(&format!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="end"{class}>{escaped}</text>"#
        ));
    }

    /// Text with its middle at `x`. It must be escaped.
    pub fn text_about(&mut self, x: f64, y: f64, class: &str, escaped: &str) {
        let class = attribute(class);
        self.add(&format!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle"{class}>{escaped}</text>"#
        ));
    }

    /// A rectangle.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let class = attribute(class);
        self.add(&format!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"{class}/>"#
        ));
    }

    /// A vertical line.
    pub fn vertical(&mut self, x: f64, from: f64, to: f64, class: &str) {
        let class = attribute(class);
        self.add(&format!(r#"<path d="M{x:.1} {from:.1}V{to:.1}"{class}/>"#));
    }

    /// The document, with a background of this height.
    pub fn finish(self, height: f64) -> String {
        let Self { width, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\">\n<style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" class=\"page\"/>\n{body}</svg>\n"
        )
    }

    fn add(&mut self, element: &str) {
        // Writing into a `String` does not fail.
        let _ = writeln!(self.body, "{element}");
    }
}

fn attribute(class: &str) -> String {
    if class.is_empty() { String::new() } else { format!(r#" class="{class}""#) }
}

/// Text as it may stand between tags.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
