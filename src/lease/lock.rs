//! One handle on one lock: decides what is asked of the store, and what each answer means. How a lock
//! is taken, and waited for, is in `acquire`.

use super::{
    registry,
    state::{Origin, State},
    token::Token,
    watch,
};
use crate::{
    clock::Moment,
    error::{Error, Result},
    loss::Loss,
    metrics::{self, Counter, Prefix},
    net::{Budget, Timeouts},
    renewal::{self, Bell, Confirmed},
    store::{Grant, Keys, Released, Renewed, Store},
    validity,
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

/// A handle on the lock on one resource.
pub struct Lock {
    pub(super) store: Rc<dyn Store>,
    pub(super) keys: Keys,
    pub(super) ttl: Duration,
    pub(super) timeouts: Timeouts,
    auto: Option<Auto>,
    /// Never borrowed across a question to the store.
    state: RefCell<State>,
    pub(super) is_registered: Cell<bool>,
    pub(super) prefix: Prefix,
}

/// How the leases of a handle are renewed by themselves.
pub struct Auto {
    /// Where its store is, for the thread's own connection.
    pub dsn: Rc<str>,
    /// How long a lease is renewed, from its grant on.
    pub max_hold: Duration,
    /// Tells the program that a lease is lost, if it wants to know.
    pub bell: Option<Bell>,
}

/// What a confirmation means.
pub(super) struct Confirmation {
    /// The end of the lease's validity, which may be past.
    pub valid_until: Moment,
    /// Whether the lease is one that this handle did not have before.
    pub is_new: bool,
}

/// How a critical section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The lease covered it.
    Covered,
    /// The lease was over before it was.
    Lost,
}

/// What a release spends at most on a renewal that is under way. Half of it is for one that would be answered.
const LONGEST_SUSPENSE: Duration = Duration::from_millis(400);

impl Lock {
    /// A handle that holds nothing yet.
    pub fn new(store: Rc<dyn Store>, keys: Keys, ttl: Duration, timeouts: Timeouts, auto: Option<Auto>) -> Rc<Self> {
        Self::with_token(store, keys, ttl, timeouts, auto, None)
    }

    /// A handle bound to a token that exists already; it does not hold until Redis has said so.
    pub fn restore(store: Rc<dyn Store>, keys: Keys, ttl: Duration, timeouts: Timeouts, token: Token) -> Rc<Self> {
        Self::with_token(store, keys, ttl, timeouts, None, Some(token))
    }

    fn with_token(
        store: Rc<dyn Store>,
        keys: Keys,
        ttl: Duration,
        timeouts: Timeouts,
        auto: Option<Auto>,
        token: Option<Token>,
    ) -> Rc<Self> {
        let prefix = Prefix::of(keys.resource());
        let (state, is_registered) = (RefCell::new(State::new(token, prefix)), Cell::new(false));
        Rc::new(Self { store, keys, ttl, timeouts, auto, state, is_registered, prefix })
    }

    /// Extends the lease to at least `ttl` from now. False: lost. An error leaves what is known as it was.
    pub fn renew(self: &Rc<Self>, ttl: Option<Duration>) -> Result<bool> {
        self.renew_counted(ttl.unwrap_or(self.ttl)).inspect_err(|error| self.reported(error))
    }

    fn renew_counted(self: &Rc<Self>, ttl: Duration) -> Result<bool> {
        let result = self.renew_within(ttl, Budget::new(self.timeouts));
        watch::renewed(&result);
        result
    }

    pub(super) fn renew_within(self: &Rc<Self>, ttl: Duration, budget: Budget) -> Result<bool> {
        let (token, standing) = {
            let state = self.state();
            (state.token_to_renew(), state.standing())
        };
        let Some(token) = token else { return Ok(false) };
        self.prepare()?;
        match self.store.renew(&self.keys, token.as_bytes(), standing, ttl, budget)? {
            Renewed::Held(grant) => {
                self.confirmed(token, grant, ttl, Origin::Renewal)?;
                Ok(true)
            }
            Renewed::Lost(found) => {
                let mut state = self.state();
                let loss = Loss::found(found, state.valid_until);
                state.lost(loss);
                Ok(false)
            }
        }
    }

    /// Makes sure, before anything is sent, that a lease could be renewed by itself.
    pub(super) fn prepare(&self) -> Result<()> {
        if self.auto.is_some() { renewal::start() } else { Ok(()) }
    }

    /// Redis confirmed the lease, for `ttl`: its validity, which may be over already.
    pub(super) fn confirmed(
        self: &Rc<Self>,
        token: Token,
        grant: Grant,
        ttl: Duration,
        origin: Origin,
    ) -> Result<Confirmation> {
        let valid_until = validity::end(grant.sent_at, ttl);
        let mut state = self.state();
        let is_known = state.hold(token, grant, ttl, origin);
        registry::add(self);
        let is_new = origin == Origin::Claim && !is_known;
        if is_new {
            state.granted_at = None;
        }
        let granted_at = *state.granted_at.get_or_insert(grant.sent_at);
        if let Some(auto) = &self.auto {
            if is_new {
                state.renewal = None;
            }
            if !valid_until.is_past() {
                self.keep(&mut state, auto, granted_at + auto.max_hold, grant, ttl)?;
            }
        }
        Ok(Confirmation { valid_until, is_new })
    }

    /// The automatic renewal goes on from here, or begins.
    fn keep(&self, state: &mut State, auto: &Auto, hold_until: Moment, grant: Grant, ttl: Duration) -> Result<()> {
        let confirmed = Confirmed { sent_at: grant.sent_at, ttl, fence: grant.fence };
        if state.renewal.as_ref().is_some_and(|renewal| renewal.confirmed(confirmed)) {
            return Ok(());
        }
        let lease = renewal::Lease {
            dsn: auto.dsn.to_string(),
            keys: self.keys.clone(),
            token: state.token.as_ref().map(|token| token.as_bytes().to_vec()).unwrap_or_default(),
            timeouts: self.timeouts,
        };
        state.renewal = None;
        state.renewal = Some(renewal::keep(lease, confirmed, self.ttl, hold_until, auto.bell.clone())?);
        Ok(())
    }

    /// Why the lease is lost, if the program is still to be told.
    pub(super) fn take_abort(&self) -> Option<Loss> {
        self.state().renewal.as_ref()?.take_abort()
    }

    /// Has the bell rung again in a moment, if the program is still to be told.
    pub(super) fn put_off_abort(&self) {
        if let Some(renewal) = &self.state().renewal {
            renewal.put_off_abort();
        }
    }

    /// Whether the program is still to be told that the lease is lost.
    pub(super) fn is_abort_due(&self) -> bool {
        self.auto.is_some() && self.state().renewal.as_ref().is_some_and(renewal::Renewal::is_abort_due)
    }

    /// Gives the lock back. True: it was ours, and is free now. False: it was lost before.
    /// After an error it counts as not held, and a further release gives the final answer.
    pub fn release(self: &Rc<Self>) -> Result<bool> {
        self.release_within(Budget::new(self.timeouts)).inspect_err(|error| self.reported(error))
    }

    pub(super) fn release_within(self: &Rc<Self>, budget: Budget) -> Result<bool> {
        self.suspend_renewal(budget);
        let (valid_until, release) = {
            let mut state = self.state();
            (state.valid_until, state.begin_release(self.retries()))
        };
        let Some((token, memory)) = release else { return Ok(false) };
        registry::add(self);
        let result = self.store.release(&self.keys, token.as_bytes(), memory, budget);
        watch::released(&result);
        let released = result?;
        self.state().released(released, valid_until);
        Ok(released == Released::Ours)
    }

    /// The caller learns of this error.
    pub(super) fn reported(&self, error: &Error) {
        if error.is_unknown() {
            metrics::count(Counter::UnknownReported);
            self.state().is_told_unknown = true;
        }
    }

    /// No renewal is sent from here on, so that none comes after what is sent next.
    fn suspend_renewal(&self, budget: Budget) {
        if self.auto.is_some()
            && let Some(renewal) = &self.state().renewal
        {
            renewal.suspend(budget.end.min(Moment::now() + LONGEST_SUSPENSE));
        }
    }

    /// Ends an inner critical section: asks whether the lease covers it, and leaves the lock to the outer one.
    pub fn conclude_inner(self: &Rc<Self>) -> Ending {
        let (is_over, is_lost) = {
            let state = self.state();
            (state.token.is_none(), state.is_lost)
        };
        let is_covered = match is_over {
            true => !is_lost,
            // Unanswered: the validity tells, and nobody is told.
            false => self.renew_counted(self.ttl).unwrap_or_else(|_| self.is_held()),
        };
        if is_covered { Ending::Covered } else { Ending::Lost }
    }

    /// Ends a critical section: gives the lock back, and says whether the lease covered the section.
    pub fn conclude(self: &Rc<Self>) -> Ending {
        let (is_held, is_lost, is_over) = {
            let state = self.state();
            (state.is_held(), state.is_lost, state.token.is_none())
        };
        let is_covered = match is_over {
            true => !is_lost,
            // Unanswered: the validity covered the section, and the end of the request tries again.
            false => self.release_within(Budget::new(self.timeouts)).unwrap_or(true) && is_held,
        };
        if is_covered { Ending::Covered } else { Ending::Lost }
    }

    /// Hands the lease over: returns its token, and nothing here releases it any more.
    pub fn detach(self: &Rc<Self>) -> Option<Token> {
        self.state().detach()
    }

    /// Gives back what is still owed, by `by` at the latest, and tells nobody: for the moments when
    /// nobody can be told.
    fn abandon(self: &Rc<Self>, by: Moment) {
        if self.state().owes() {
            let _ = self.release_within(Budget::until(self.timeouts, by).hurried());
        }
        // That was the last try: the destructors that follow a request's end must not begin again.
        let mut state = self.state();
        state.end_lost();
        state.end();
        drop(state);
        registry::remove(self);
    }

    /// The last reference has gone: gives back what is owed, in one command time-out.
    pub fn drop_now(self: &Rc<Self>) {
        self.abandon(self.release_by());
    }

    /// The request ends: gives back what is owed, in one command time-out for all its handles together, or
    /// with `release` false leaves it to its TTL.
    pub fn end_with_request(self: &Rc<Self>, release: bool) {
        if release {
            self.abandon(registry::end_by(self.release_by()));
        } else {
            self.state().end();
            registry::remove(self);
        }
    }

    fn release_by(&self) -> Moment {
        Moment::now() + self.timeouts.command
    }

    /// The token of the present owner, whoever it is.
    pub fn owner(&self) -> Result<Option<Vec<u8>>> {
        self.store.owner(&self.keys, Budget::new(self.timeouts))
    }

    /// Removes the lock, whoever's it is. False: nobody had it.
    pub fn force_release(self: &Rc<Self>) -> Result<bool> {
        let budget = Budget::new(self.timeouts);
        self.suspend_renewal(budget);
        let result = self.store.force_release(&self.keys, budget);
        let mut state = self.state();
        match &result {
            // Whoever's it was: nobody holds it now, this handle neither.
            Ok(_) => state.force_released(),
            Err(_) => state.renewal.iter().for_each(renewal::Renewal::resume),
        }
        drop(state);
        result
    }

    /// Whether the lease may be relied on now; no question to Redis.
    pub fn is_held(&self) -> bool {
        self.state().is_held()
    }

    /// The validity left.
    pub fn remaining(&self) -> Duration {
        self.state().remaining()
    }

    /// How the latest lease was lost; None when it was not, or nobody knows.
    pub fn loss(&self) -> Option<Loss> {
        self.state().loss()
    }

    /// The resource that the lock is on.
    pub fn resource(&self) -> &[u8] {
        self.keys.resource()
    }

    /// The fence of this handle's latest lease.
    pub fn fence(&self) -> Option<u64> {
        self.state().fence
    }

    /// The token of this handle's lease, or of an attempt whose outcome is unknown.
    pub fn token(&self) -> Option<Token> {
        self.state().token.clone()
    }

    /// How long one release may be asked for again: this call, and one more at the end of the request.
    fn retries(&self) -> Duration {
        (self.timeouts.connect + self.timeouts.command) * 2 + Duration::from_secs(1)
    }

    /// The state, emptied first in a process that only inherited it.
    pub(super) fn state(&self) -> std::cell::RefMut<'_, State> {
        let mut state = self.state.borrow_mut();
        state.adopt();
        state.follow();
        state
    }
}
