//! `DistributedLock`.

use super::{
    abort,
    call::{Call, OptionalFloat, Returned, Text, class_entry, handler, seconds},
    class::final_class,
    connection::Connection,
    exceptions::{Failure, Thrown, Trouble},
    ini,
    interrupts::Php,
    lifecycle,
};
use crate::{
    error::Error,
    lease::{Auto, Ending, Lock, Token},
    store::Keys,
};
use ext_php_rs::{
    args::Arg,
    builders::FunctionBuilder,
    class::RegisteredClass,
    ffi::{zend_call_function, zend_fcall_info, zend_fcall_info_cache},
    flags::{DataType, MethodFlags},
    types::{ZendClassObject, Zval},
    zend::{ExecuteData, ExecutorGlobals, try_catch},
};
use std::{cell::Cell, ffi::c_void, mem::MaybeUninit, panic::AssertUnwindSafe, ptr, rc::Rc, time::Duration};

/// A handle, and the name it was made with.
pub struct DistributedLock {
    lock: Rc<Lock>,
    resource: Vec<u8>,
    /// How many calls of `synchronized()` are under way on it.
    depth: Cell<u32>,
}

const LONGEST_RESOURCE: usize = 64 << 10;
const LONGEST_WAIT: f64 = crate::lease::LONGEST_TTL;
const WAIT_RULE: &str = "must be a finite number of seconds, 0 or greater, and at most 31536000";

impl DistributedLock {
    fn failure(&self, trouble: Trouble) -> Thrown {
        Thrown::Lease(Box::new(Failure {
            trouble,
            resource: Some(self.resource.clone()),
            token: self.lock.token().map(|token| token.as_bytes().to_vec()),
            fence: self.lock.fence(),
        }))
    }

    fn error(&self, error: Error) -> Thrown {
        self.failure(Trouble::Error(error))
    }

    fn acquire(&self, wait: Duration) -> Result<bool, Thrown> {
        let php = Php::default();
        self.lock.acquire(wait, &php).map_err(|error| match error {
            Error::Interrupted => php.thrown(),
            error => self.error(error),
        })
    }
}

/// The last reference to the handle goes: what it holds is given back, and nobody can be told of trouble.
impl Drop for DistributedLock {
    fn drop(&mut self) {
        if lifecycle::is_request_ending() {
            self.lock.end_with_request(ini::release_on_shutdown());
        } else {
            self.lock.drop_now();
        }
    }
}

fn construct(call: &mut Call<'_>) -> Result<DistributedLock, Thrown> {
    call.first_construction::<DistributedLock>()?;
    let (mut resource, mut ttl, mut connection) = (Text::NONE, OptionalFloat::NONE, ptr::null_mut::<Zval>());
    let (mut auto_renew, mut abort_on_loss) = (false, false);
    let ([a, b], [c, d]) = (resource.slots(), ttl.slots());
    let (e, f, h) = (place(&mut auto_renew), place(&mut connection), place(&mut abort_on_loss));
    let g = class_entry(Connection::get_metadata().ce());
    // SAFETY: the slots are those of the values above, in the order of the specification.
    unsafe { call.parse(c"s|d!bO!b", [a, b, c, d, e, f, g, h]) }?;

    let resource = check_resource(&resource)?;
    let ttl = check_ttl(&ttl, 2)?.unwrap_or_else(ini::ttl);
    if abort_on_loss && !auto_renew {
        return Err(Thrown::Argument(5, "must be false unless argument #3 ($autoRenew) is true".into()));
    }
    let connection = connection_or_default(connection)?;
    let keys = Keys::new(&connection.prefix, resource);
    let auto = match auto_renew {
        false => None,
        true => Some(Auto {
            dsn: connection.dsn,
            max_hold: ini::max_hold(),
            bell: if abort_on_loss { Some(abort::bell()?) } else { None },
        }),
    };
    let lock = Lock::new(connection.store, keys, ttl, connection.timeouts, auto);
    Ok(DistributedLock { lock, resource: resource.to_vec(), depth: Cell::new(0) })
}

fn restore(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    let (mut resource, mut token) = (Text::NONE, Text::NONE);
    let (mut ttl, mut connection) = (OptionalFloat::NONE, ptr::null_mut::<Zval>());
    let ([a, b], [c, d], [e, f]) = (resource.slots(), token.slots(), ttl.slots());
    let (g, h) = (place(&mut connection), class_entry(Connection::get_metadata().ce()));
    // SAFETY: the slots are those of the values above, in the order of the specification.
    unsafe { call.parse(c"ss|d!O!", [a, b, c, d, e, f, g, h]) }?;

    let resource = check_resource(&resource)?;
    let token =
        Token::existing(token.bytes().unwrap_or_default()).map_err(|error| Thrown::Argument(2, error.to_string()))?;
    let ttl = check_ttl(&ttl, 3)?.unwrap_or_else(ini::ttl);
    let connection = connection_or_default(connection)?;
    let keys = Keys::new(&connection.prefix, resource);
    let lock = Lock::restore(connection.store, keys, ttl, connection.timeouts, token);
    let mut object = ZendClassObject::new(DistributedLock { lock, resource: resource.to_vec(), depth: Cell::new(0) });
    let mut value = Zval::new();
    value.set_object(&mut object.std);
    Ok(Returned::Value(value))
}

fn acquire(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    let mut wait = 0.0_f64;
    // SAFETY: the slots are those of the values above, in the order of the specification.
    unsafe { call.parse(c"|d", [place(&mut wait)]) }?;
    let this = call.this::<DistributedLock>()?;
    let wait = check_wait(wait, 1)?;
    this.acquire(wait).map(Returned::Bool)
}

fn renew(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    let mut ttl = OptionalFloat::NONE;
    // SAFETY: the slots are those of the values above, in the order of the specification.
    unsafe { call.parse(c"|d!", ttl.slots()) }?;
    let this = call.this::<DistributedLock>()?;
    let ttl = check_ttl(&ttl, 1)?;
    this.lock.renew(ttl).map(Returned::Bool).map_err(|error| this.error(error))
}

fn release(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    let this = call.this::<DistributedLock>()?;
    this.lock.release().map(Returned::Bool).map_err(|error| this.error(error))
}

fn synchronized(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    let mut callback = Callback::new();
    let mut wait = 0.0_f64;
    let [a, b] = callback.slots();
    // SAFETY: the slots are those of the values above, in the order of the specification.
    unsafe { call.parse(c"f|d", [a, b, place(&mut wait)]) }?;
    let this = call.this::<DistributedLock>()?;
    let wait = check_wait(wait, 2)?;

    if !this.acquire(wait)? {
        return Err(this.failure(Trouble::NotAcquired(wait)));
    }
    this.depth.set(this.depth.get() + 1);
    let result = callback.call_with(call.this_value());
    this.depth.set(this.depth.get() - 1);
    // Inside another section of the same object the lock is the outer one's to give back.
    let conclude = || if this.depth.get() == 0 { this.lock.conclude() } else { this.lock.conclude_inner() };
    // Whatever came of the section, the lock goes back. A bailout is no end of the request's own
    // clean-up, which does it then.
    match result {
        Err(Thrown::Bailout) => Err(Thrown::Bailout),
        Err(thrown) => {
            conclude();
            Err(thrown)
        }
        Ok(value) => match conclude() {
            Ending::Covered => Ok(Returned::Value(value)),
            Ending::Lost => Err(this.failure(Trouble::Lost(value, this.lock.loss()))),
        },
    }
}

fn is_held(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    Ok(Returned::Bool(call.this::<DistributedLock>()?.lock.is_held()))
}

fn remaining(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    Ok(Returned::Float(call.this::<DistributedLock>()?.lock.remaining().as_secs_f64()))
}

fn loss(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    let loss = call.this::<DistributedLock>()?.lock.loss();
    Ok(Returned::bytes_or_null(loss.map(|loss| loss.word().into())))
}

fn fence(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    let fence = call.this::<DistributedLock>()?.lock.fence();
    Ok(fence.and_then(|fence| i64::try_from(fence).ok()).map_or(Returned::Null, Returned::Int))
}

fn token(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    Ok(token_or_null(call.this::<DistributedLock>()?.lock.token()))
}

fn resource(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    Ok(Returned::Bytes(call.this::<DistributedLock>()?.resource.clone()))
}

fn detach(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    Ok(token_or_null(call.this::<DistributedLock>()?.lock.detach()))
}

fn owner(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    let this = call.this::<DistributedLock>()?;
    this.lock.owner().map(Returned::bytes_or_null).map_err(|error| this.error(error))
}

fn force_release(call: &mut Call<'_>) -> Result<Returned, Thrown> {
    call.no_arguments()?;
    let this = call.this::<DistributedLock>()?;
    this.lock.force_release().map(Returned::Bool).map_err(|error| this.error(error))
}

fn token_or_null(token: Option<Token>) -> Returned {
    Returned::bytes_or_null(token.map(|token| token.as_bytes().to_vec()))
}

fn check_resource(resource: &Text) -> Result<&[u8], Thrown> {
    match resource.bytes().unwrap_or_default() {
        [] => Err(Thrown::Argument(1, "must not be empty".into())),
        bytes if bytes.len() > LONGEST_RESOURCE => {
            Err(Thrown::Argument(1, format!("must be at most {LONGEST_RESOURCE} bytes")))
        }
        bytes => Ok(bytes),
    }
}

fn check_ttl(ttl: &OptionalFloat, argument: u32) -> Result<Option<Duration>, Thrown> {
    ttl.get().map(|value| seconds(value, ini::TTL_RANGE, argument, ini::TTL_RULE)).transpose()
}

fn check_wait(wait: f64, argument: u32) -> Result<Duration, Thrown> {
    seconds(wait, 0.0..=LONGEST_WAIT, argument, WAIT_RULE)
}

fn connection_or_default(argument: *const Zval) -> Result<Connection, Thrown> {
    // SAFETY: null, or the argument that the parser found to be an object of the class.
    let Some(argument) = (unsafe { argument.as_ref() }) else { return Connection::from_settings() };
    let object = argument.object().and_then(ZendClassObject::<Connection>::from_zend_obj);
    object.map(|object| (**object).clone()).ok_or_else(|| {
        Thrown::Error(
            "The RedisLease\\Connection object has not been initialized: its constructor was not called".into(),
        )
    })
}

fn place<T>(value: &mut T) -> *mut c_void {
    ptr::from_mut(value).cast()
}

/// A `callable` argument, as the parser writes it.
struct Callback {
    call: MaybeUninit<zend_fcall_info>,
    cache: MaybeUninit<zend_fcall_info_cache>,
}

impl Callback {
    fn new() -> Self {
        Self { call: MaybeUninit::zeroed(), cache: MaybeUninit::zeroed() }
    }

    fn slots(&mut self) -> [*mut c_void; 2] {
        [self.call.as_mut_ptr().cast(), self.cache.as_mut_ptr().cast()]
    }

    /// Calls it with one argument. The engine may bail out of it, over these frames: caught here, so that
    /// what they hold is dropped.
    fn call_with(&mut self, mut argument: Zval) -> Result<Zval, Thrown> {
        let mut result = Zval::new();
        // SAFETY: the parser filled both structs before; zeroed they are valid too.
        let (call, cache) = unsafe { (self.call.assume_init_mut(), self.cache.assume_init_mut()) };
        call.retval = &raw mut result;
        call.params = &raw mut argument;
        call.param_count = 1;
        let (call, cache) = (ptr::from_mut(call), ptr::from_mut(cache));
        // SAFETY: the callback was checked by the parser, and all it points to is alive.
        let called = try_catch(AssertUnwindSafe(|| unsafe { zend_call_function(call, cache) }));
        match called {
            Err(_) => Err(Thrown::Bailout),
            Ok(_) if ExecutorGlobals::has_exception() => Err(Thrown::Pending),
            Ok(_) => Ok(result),
        }
    }
}

fn nullable(name: &str, kind: DataType) -> Arg<'static> {
    Arg::new(name, kind).allow_null().default("null")
}

fn wait_argument() -> Arg<'static> {
    Arg::new("wait", DataType::Double).default("0.0")
}

fn connection_argument() -> Arg<'static> {
    nullable("connection", DataType::object("RedisLease\\Connection"))
}

fn method(name: &str, handler: extern "C" fn(&mut ExecuteData, &mut Zval)) -> FunctionBuilder<'static> {
    FunctionBuilder::new(name, handler)
}

final_class!(
    DistributedLock,
    "DistributedLock",
    constructor: construct,
    arguments: |function| function
        .arg(Arg::new("resource", DataType::String))
        .not_required()
        .arg(nullable("ttl", DataType::Double))
        .arg(Arg::new("autoRenew", DataType::Bool).default("false"))
        .arg(connection_argument())
        .arg(Arg::new("abortOnLoss", DataType::Bool).default("false")),
    methods: {
        let restore = method("restore", handler!(restore))
            .arg(Arg::new("resource", DataType::String))
            .arg(Arg::new("token", DataType::String))
            .not_required()
            .arg(nullable("ttl", DataType::Double))
            .arg(connection_argument())
            .returns(DataType::object("self"), false, false);
        let public = [
            method("acquire", handler!(acquire)).not_required().arg(wait_argument()).returns(DataType::Bool, false, false),
            method("renew", handler!(renew)).not_required().arg(nullable("ttl", DataType::Double)).returns(DataType::Bool, false, false),
            method("release", handler!(release)).returns(DataType::Bool, false, false),
            method("synchronized", handler!(synchronized))
                .arg(Arg::new("criticalSection", DataType::Callable))
                .not_required()
                .arg(wait_argument())
                .returns(DataType::Mixed, false, false),
            method("isHeld", handler!(is_held)).returns(DataType::Bool, false, false),
            method("remaining", handler!(remaining)).returns(DataType::Double, false, false),
            method("loss", handler!(loss)).returns(DataType::String, false, true),
            method("fence", handler!(fence)).returns(DataType::Long, false, true),
            method("token", handler!(token)).returns(DataType::String, false, true),
            method("resource", handler!(resource)).returns(DataType::String, false, false),
            method("detach", handler!(detach)).returns(DataType::String, false, true),
            method("owner", handler!(owner)).returns(DataType::String, false, true),
            method("forceRelease", handler!(force_release)).returns(DataType::Bool, false, false),
        ];
        let public = public.into_iter().map(|method| (method, MethodFlags::Public));
        std::iter::once((restore, MethodFlags::Public | MethodFlags::Static)).chain(public).collect()
    }
);
