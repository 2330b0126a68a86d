//! The numbers of all processes, put under their names.

use super::{
    SECOND,
    families::{FAMILIES, Family, Numbers, Servers, Unit},
    memory::{self, Cell},
    numbers::{Counter, Histogram},
};

/// One metric, as it stands.
pub struct Reading {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// Its type, in the words of Prometheus.
    pub kind: &'static str,
    /// One for each set of labels.
    pub series: Vec<Series>,
}

/// One number of a metric.
pub struct Series {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// What was counted.
    pub value: Value,
}

/// What was counted.
pub enum Value {
    /// Events.
    Count(u64),
    /// Time, or a moment.
    Seconds(f64),
    /// Values by their size.
    Histogram {
        /// Each bound, and how many values were at most that.
        buckets: Vec<(&'static str, u64)>,
        /// Of all values.
        sum: f64,
    },
}

/// Every metric.
pub fn read() -> Vec<Reading> {
    let shared = u64::from(memory::is_shared());
    let mut readings = vec![
        gauge(
            "redis_lease_info",
            "The version of the extension.",
            vec![("version", env!("CARGO_PKG_VERSION").into())],
            Value::Count(1),
        ),
        gauge(
            "redis_lease_metrics_shared",
            "1: counted together with all processes forked from the same parent. 0: this process only.",
            Vec::new(),
            Value::Count(shared),
        ),
        gauge(
            "redis_lease_metrics_start_time_seconds",
            "Since when it is counted, in seconds since 1970.",
            Vec::new(),
            Value::Seconds(micros(memory::since())),
        ),
    ];
    readings.extend(FAMILIES.iter().map(family));
    readings
}

/// The sum of some counters.
pub fn total(counters: &[Counter]) -> u64 {
    counters.iter().map(|counter| memory::read(Cell::counter(*counter))).sum()
}

fn gauge(name: &'static str, help: &'static str, labels: Vec<(&'static str, String)>, value: Value) -> Reading {
    Reading { name, help, kind: "gauge", series: vec![Series { labels, value }] }
}

fn family(family: &Family) -> Reading {
    let kind = if matches!(family.numbers, Numbers::Histogram(_)) { "histogram" } else { "counter" };
    let labelled = |first: Option<&String>, values: &[&str], value| {
        let values = first.cloned().into_iter().chain(values.iter().map(|value| (*value).to_owned()));
        Series { labels: family.labels.iter().copied().zip(values).collect(), value }
    };
    let series = match family.numbers {
        Numbers::Counters(numbers) => numbers
            .iter()
            .map(|(counter, values)| labelled(None, values, Value::Count(memory::read(Cell::counter(*counter)))))
            .collect(),
        Numbers::Histogram(histogram) => vec![labelled(None, &[], distribution(histogram))],
        Numbers::PerServer(numbers, which) => {
            let is_used = |place| numbers.iter().any(|(number, _)| memory::read(Cell::server(place, *number)) > 0);
            let mut servers = memory::servers().all();
            servers.retain(|(place, _)| which == Servers::All || is_used(*place));
            if is_used(memory::SERVERS) {
                servers.push((memory::SERVERS, "other".into()));
            }
            let each = servers.iter().flat_map(|(place, server)| {
                numbers
                    .iter()
                    .map(move |(number, values)| (server, values, memory::read(Cell::server(*place, *number))))
            });
            each.map(|(server, values, count)| labelled(Some(server), values, Value::Count(count))).collect()
        }
        Numbers::PerPrefix(number, unit) => memory::prefixes()
            .all()
            .iter()
            .map(|(place, prefix)| {
                let count = memory::read(Cell::prefix(*place, number));
                let value = if unit == Unit::Events { Value::Count(count) } else { Value::Seconds(seconds(count)) };
                labelled(Some(prefix), &[], value)
            })
            .collect(),
    };
    Reading { name: family.name, help: family.help, kind, series }
}

/// How many values there were is the sum of the buckets, so that both always agree.
fn distribution(histogram: Histogram) -> Value {
    let bounds = histogram.bounds().iter().map(|(_, text)| *text).chain(["+Inf"]);
    let mut count = 0;
    let buckets = bounds.enumerate().map(|(place, bound)| {
        count += memory::read(Cell::nth_bucket(histogram, place));
        (bound, count)
    });
    Value::Histogram { buckets: buckets.collect(), sum: seconds(memory::read(Cell::sum(histogram))) }
}

#[allow(clippy::cast_precision_loss, reason = "what is lost is less than a nanosecond in a year")]
fn seconds(nanos: u64) -> f64 {
    (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / SECOND as f64
}

#[allow(clippy::cast_precision_loss, reason = "below 2^53 until the year 2255")]
fn micros(micros: u64) -> f64 {
    micros as f64 / 1e6
}
