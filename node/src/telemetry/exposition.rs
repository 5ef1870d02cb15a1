//! The two text formats of Prometheus, and content negotiation between them.

use std::fmt::Write;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, version 0.0.4, which every scraper reads.
    Classic,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for a scraper that sends these values of `Accept`: the classic one unless the
    /// other is asked for by name, with a weight (RFC 9110, 12.4.2) that is not below the classic
    /// one's.
    pub fn accepted<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        // Of the classic one by each range that has it, the most specific first.
        let (mut open_metrics, mut classic) = (0.0, [None::<f32>; 3]);
        for range in values.into_iter().flat_map(|value| value.split(',')) {
            let (name, weight) = weighted(range);
            let place = match name.to_ascii_lowercase().as_str() {
                "application/openmetrics-text" => {
                    open_metrics = weight.max(open_metrics);
                    continue;
                }
                "text/plain" => 0,
                "text/*" => 1,
                "*/*" => 2,
                _ => continue,
            };
            // Of several versions the best one.
            classic[place] = Some(classic[place].map_or(weight, |other| weight.max(other)));
        }
        let classic = classic.into_iter().flatten().next().unwrap_or(0.0);
        if open_metrics > 0.0 && open_metrics >= classic {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    /// The format's media type, for `Content-Type`.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The name of a media range and its weight: 1 unless it says so, 0 where that is no number.
fn weighted(range: &str) -> (&str, f32) {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or("");
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    (name, weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
}

/// The classic form of a text in the other format, which has no exemplars.
///
/// There, a family has the name of its samples, `info` does not exist, and units and the end are
/// not marked.
pub fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 8);
    // A family's help comes before its type, which decides the family's name.
    let mut help = "";
    // Writing to a string does not fail.
    for line in open_metrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            let _ = writeln!(text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Format, classic};

    #[test]
    fn a_family_is_called_what_its_samples_are() {
        let open_metrics = "# HELP a_build The version.\n# TYPE a_build info\n\
            a_build_info{version=\"1\"} 1\n# HELP a_n Things done.\n# TYPE a_n counter\n\
            # UNIT a_n things\na_n_total{x=\"# EOF\"} 7\n# HELP a_g Open.\n# TYPE a_g gauge\n\
            a_g 1\n# EOF\n";
        let expected = "# HELP a_build_info The version.\n# TYPE a_build_info gauge\n\
            a_build_info{version=\"1\"} 1\n# HELP a_n_total Things done.\n\
            # TYPE a_n_total counter\na_n_total{x=\"# EOF\"} 7\n# HELP a_g Open.\n\
            # TYPE a_g gauge\na_g 1\n";
        assert_eq!(classic(open_metrics), expected);
    }

    #[test]
    fn open_metrics_are_only_sent_when_requested() {
        for (accept, expected) in [
            (&[][..], Format::Classic),
            (&["*/*"], Format::Classic),
            (&["text/plain;version=0.0.4"], Format::Classic),
            (&["application/openmetrics-text"], Format::OpenMetrics),
            (&["text/plain", "Application/OpenMetrics-Text"], Format::OpenMetrics),
            (&["text/plain", "Application/OpenMetrics-Text; q=0.1"], Format::Classic),
            (&["text/plain;q=0.1, */*, application/openmetrics-text;q=0.2"], Format::OpenMetrics),
            (
                &["application/openmetrics-text;version=1.0.0;q=0.6,\
                   application/openmetrics-text;version=0.0.1;q=0.2,\
                   text/plain;version=1.0.0;q=0.1,text/plain;version=0.0.4;q=0.3,*/*;q=0.9"],
                Format::OpenMetrics,
            ),
            (&["text/*;q=0.3, application/openmetrics-text;q=0.2"], Format::Classic),
            (&["application/openmetrics-text;q=much"], Format::Classic),
            (
                &["application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3,*/*;q=0.2"],
                Format::OpenMetrics,
            ),
            (&["application/openmetrics-text;q=0, text/plain"], Format::Classic),
        ] {
            assert_eq!(Format::accepted(accept.iter().copied()), expected, "{accept:?}");
        }
    }
}
