//! `RedisLease\Metrics`.

use super::{
    call::{Call, Returned, handler},
    exceptions::Thrown,
};
use crate::metrics::{self, Counter, Reading, Value};
use ext_php_rs::{
    boxed::ZBox,
    builders::{ClassBuilder, FunctionBuilder},
    error::Result as PhpResult,
    flags::{ClassFlags, DataType, MethodFlags},
    types::{ZendHashTable, Zval},
};
use std::{
    ffi::c_void,
    hint, ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

/// The descriptions of the arguments.
static KEPT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Registers the class at module startup. It has static methods only.
pub fn register() -> PhpResult<()> {
    let of_class = MethodFlags::Public | MethodFlags::Static;
    ClassBuilder::new("RedisLease\\Metrics")
        .flags(ClassFlags::Final)
        .method(FunctionBuilder::new("__construct", handler!(construct)), MethodFlags::Private)
        .method(FunctionBuilder::new("snapshot", handler!(snapshot)).returns(DataType::Array, false, false), of_class)
        .method(
            FunctionBuilder::new("prometheus", handler!(prometheus)).returns(DataType::String, false, false),
            of_class,
        )
        .method(FunctionBuilder::new("reset", handler!(reset)).returns(DataType::Void, false, false), of_class)
        // The engine reads the descriptions of the arguments for as long as the module is loaded.
        .registration(|_, descriptions| {
            let before = KEPT.swap(Box::into_raw(Box::new(descriptions)).cast(), Ordering::AcqRel);
            // What is never read the compiler does not keep, and leak checkers then find the descriptions lost.
            hint::black_box(before);
        })
        .register()
}

fn construct(_: &mut Call<'_>) -> Result<Returned, Thrown> {
    Ok(Returned::Nothing)
}

fn snapshot(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    begin(call)?;
    tree().map(Returned::Array).map_err(|error| Thrown::Error(error.to_string()))
}

fn prometheus(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    begin(call)?;
    Ok(Returned::Bytes(metrics::text(&metrics::read()).into_bytes()))
}

fn reset(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    begin(call)?;
    metrics::reset();
    Ok(Returned::Nothing)
}

fn begin(call: &Call<'_>) -> Result<(), Thrown> {
    call.no_arguments()?;
    // Zeros would say that nothing happened.
    let off = "Nothing is counted: redis_lease.metrics is 0 in php.ini";
    if metrics::is_on() { Ok(()) } else { Err(Thrown::Error(off.into())) }
}

/// A name less what all names have in common, and by it a number, or numbers by the values of the labels.
fn tree() -> PhpResult<ZBox<ZendHashTable>> {
    let mut all = ZendHashTable::new();
    for Reading { name, series, .. } in metrics::read() {
        let name = name.trim_start_matches("redis_lease_").trim_end_matches("_total");
        let mut of_metric: Option<Zval> = None;
        for one in series {
            let labels: Vec<&str> = one.labels.iter().map(|(_, value)| value.as_str()).collect();
            graft(&mut of_metric, &labels, value(one.value)?)?;
        }
        match of_metric {
            Some(value) => all.insert(name, value)?,
            None => all.insert(name, ZendHashTable::new())?,
        };
    }
    Ok(all)
}

/// Puts a value where these labels lead.
fn graft(place: &mut Option<Zval>, labels: &[&str], value: Zval) -> PhpResult<()> {
    let Some((label, rest)) = labels.split_first() else {
        *place = Some(value);
        return Ok(());
    };
    let branch = place.get_or_insert_with(|| {
        let mut branch = Zval::new();
        branch.set_hashtable(ZendHashTable::new());
        branch
    });
    let Some(table) = branch.array_mut() else { return Ok(()) };
    let mut below = table.get(*label).map(Zval::shallow_clone);
    graft(&mut below, rest, value)?;
    if let Some(below) = below {
        table.insert(*label, below)?;
    }
    Ok(())
}

fn value(value: Value) -> PhpResult<Zval> {
    let mut slot = Zval::new();
    match value {
        Value::Count(count) => slot.set_long(integer(count)),
        Value::Seconds(seconds) => slot.set_double(seconds),
        Value::Histogram { buckets, sum } => {
            let mut table = ZendHashTable::new();
            table.insert("count", integer(buckets.last().map_or(0, |(_, count)| *count)))?;
            table.insert("sum", sum)?;
            let mut counts = ZendHashTable::new();
            for (bound, count) in buckets {
                counts.insert(bound, integer(count))?;
            }
            table.insert("buckets", counts)?;
            slot.set_hashtable(table);
        }
    }
    Ok(slot)
}

fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The totals, for phpinfo.
pub fn totals() -> Vec<(&'static str, String)> {
    if !metrics::is_on() {
        return vec![("Metrics", "off".into())];
    }
    let total = |counters: &[Counter]| metrics::total(counters).to_string();
    let unavailable = [Counter::AcquireUnavailable, Counter::AcquireUnknown, Counter::AcquireRefused];
    let losses = [
        Counter::Expired,
        Counter::Deleted,
        Counter::Taken,
        Counter::Unreachable,
        Counter::MaxHold,
        Counter::LostUntold,
    ];
    let shared = if metrics::is_shared() { "shared by all workers of one parent" } else { "of this process" };
    vec![
        ("Metrics", shared.into()),
        ("Leases granted", total(&[Counter::Acquired])),
        ("Found contended", total(&[Counter::Contention])),
        ("Not acquired for a fault", total(&unavailable)),
        ("Outcomes reported as unknown", total(&[Counter::UnknownReported])),
        ("Leases lost", total(&losses)),
    ]
}
