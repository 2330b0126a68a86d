//! `RedisLease\Connection`.

use super::{
    call::{Call, OptionalFloat, Returned, Text, handler, seconds},
    class::final_class,
    exceptions::Thrown,
    ini,
};
use crate::{
    net::{Budget, Timeouts},
    store::{self, Store},
};
use ext_php_rs::{
    args::Arg,
    boxed::ZBox,
    builders::FunctionBuilder,
    flags::{DataType, MethodFlags},
    types::{ZendClassObject, ZendHashTable, Zval},
};
use std::rc::Rc;

/// A store, and the options that locks on it take over.
#[derive(Clone)]
pub struct Connection {
    pub store: Rc<dyn Store>,
    /// What names the store.
    pub dsn: Rc<str>,
    pub timeouts: Timeouts,
    pub prefix: Vec<u8>,
}

impl Connection {
    /// The connection that the settings describe.
    pub fn from_settings() -> Result<Self, Thrown> {
        let dsn = ini::dsn();
        let store = store::open(&dsn).map_err(|error| Thrown::dsn(&error, None))?;
        Ok(Self { store, dsn: dsn.into(), timeouts: ini::timeouts(), prefix: ini::prefix() })
    }
}

fn construct(call: &mut Call<'_>) -> Result<Connection, Thrown> {
    call.first_construction::<Connection>()?;
    let (mut dsn, mut prefix) = (Text::NONE, Text::NONE);
    let (mut connect, mut command) = (OptionalFloat::NONE, OptionalFloat::NONE);
    let ([a, b], [c, d], [e, f], [g, h]) = (dsn.slots(), connect.slots(), command.slots(), prefix.slots());
    // SAFETY: the slots are those of the values above, in the order of the specification.
    unsafe { call.parse(c"s|d!d!s!", [a, b, c, d, e, f, g, h]) }?;

    let dsn = std::str::from_utf8(dsn.bytes().unwrap_or_default())
        .map_err(|_| Thrown::Argument(1, "must be valid UTF-8".into()))?;
    let store = store::open(dsn).map_err(|error| Thrown::dsn(&error, Some(1)))?;
    let mut timeouts = ini::timeouts();
    if let Some(value) = connect.get() {
        timeouts.connect = seconds(value, ini::TIMEOUT_RANGE, 2, ini::TIMEOUT_RULE)?;
    }
    if let Some(value) = command.get() {
        timeouts.command = seconds(value, ini::TIMEOUT_RANGE, 3, ini::TIMEOUT_RULE)?;
    }
    let prefix = prefix.bytes().map_or_else(ini::prefix, <[u8]>::to_vec);
    if prefix.len() > ini::LONGEST_PREFIX {
        return Err(Thrown::Argument(4, format!("must be at most {} bytes", ini::LONGEST_PREFIX)));
    }
    Ok(Connection { store, dsn: dsn.into(), timeouts, prefix })
}

fn default(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    let mut object = ZendClassObject::new(Connection::from_settings()?);
    let mut value = Zval::new();
    value.set_object(&mut object.std);
    Ok(Returned::Value(value))
}

fn ping(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    let this = call.this::<Connection>()?;
    let mut nodes: ZBox<ZendHashTable> = ZendHashTable::new();
    for (node, result) in this.store.ping(Budget::new(this.timeouts)) {
        let inserted = match result {
            Ok(round_trip) => nodes.insert(node.as_str(), round_trip.as_secs_f64()),
            Err(reason) => nodes.insert(node.as_str(), reason),
        };
        inserted.map_err(|error| Thrown::Error(error.to_string()))?;
    }
    Ok(Returned::Array(nodes))
}

fn close(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    call.this::<Connection>()?.store.close();
    Ok(Returned::Nothing)
}

final_class!(
    Connection,
    "RedisLease\\Connection",
    constructor: construct,
    arguments: |function| function
        .arg(Arg::new("dsn", DataType::String))
        .not_required()
        .arg(Arg::new("connectTimeout", DataType::Double).allow_null().default("null"))
        .arg(Arg::new("commandTimeout", DataType::Double).allow_null().default("null"))
        .arg(Arg::new("prefix", DataType::String).allow_null().default("null")),
    methods: vec![
        (
            FunctionBuilder::new("default", handler!(default)).returns(DataType::object("self"), false, false),
            MethodFlags::Public | MethodFlags::Static,
        ),
        (FunctionBuilder::new("ping", handler!(ping)).returns(DataType::Array, false, false), MethodFlags::Public),
        (FunctionBuilder::new("close", handler!(close)).returns(DataType::Void, false, false), MethodFlags::Public),
    ]
);
