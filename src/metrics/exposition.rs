//! The text that Prometheus reads: exposition format 0.0.4.

use super::reading::{Reading, Series, Value};
use std::fmt::{self, Write};

/// All of it.
pub fn text(readings: &[Reading]) -> String {
    let mut text = String::new();
    // A String takes everything.
    let _ = readings.iter().try_for_each(|reading| write(&mut text, reading));
    text
}

fn write(text: &mut String, reading: &Reading) -> fmt::Result {
    let Reading { name, help, kind, series } = reading;
    writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", escaped(help, false))?;
    for Series { labels, value } in series {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value, true))).collect();
        let set = |more: Option<&String>| {
            let all: Vec<&str> = labels.iter().chain(more).map(String::as_str).collect();
            if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
        };
        match value {
            Value::Count(count) => writeln!(text, "{name}{} {count}", set(None))?,
            Value::Seconds(seconds) => writeln!(text, "{name}{} {seconds}", set(None))?,
            Value::Histogram { buckets, sum } => {
                for (bound, count) in buckets {
                    writeln!(text, "{name}_bucket{} {count}", set(Some(&format!("le=\"{bound}\""))))?;
                }
                let count = buckets.last().map_or(0, |(_, count)| *count);
                writeln!(text, "{name}_sum{0} {sum}\n{name}_count{0} {count}", set(None))?;
            }
        }
    }
    Ok(())
}

fn escaped(text: &str, is_label: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if is_label { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_prometheus_reads_it() {
        let series = |labels, value| vec![Series { labels, value }];
        let readings = [
            Reading { name: "a_total", help: "A \\.\nB", kind: "counter", series: series(vec![], Value::Count(3)) },
            Reading {
                name: "b_seconds_total",
                help: "B.",
                kind: "counter",
                series: series(vec![("node", "a\"\\\n".into()), ("kind", "x".into())], Value::Seconds(0.25)),
            },
            Reading {
                name: "c_seconds",
                help: "C.",
                kind: "histogram",
                series: series(vec![], Value::Histogram { buckets: vec![("0.5", 1), ("+Inf", 2)], sum: 4.5 }),
            },
        ];
        let expected = r#"# HELP a_total A \\.\nB
# TYPE a_total counter
a_total 3
# HELP b_seconds_total B.
# TYPE b_seconds_total counter
b_seconds_total{node="a\"\\\n",kind="x"} 0.25
# HELP c_seconds C.
# TYPE c_seconds histogram
c_seconds_bucket{le="0.5"} 1
c_seconds_bucket{le="+Inf"} 2
c_seconds_sum 4.5
c_seconds_count 2
"#;
        assert_eq!(text(&readings), expected);
    }
}
