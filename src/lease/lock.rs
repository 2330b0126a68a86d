//! One handle on one lock: decides what is asked of the store, and what each answer means. How a lock
//! is taken, and waited for, is in `acquire`.

use super::{registry, state::State, token::Token, validity};
use crate::{
    clock::Moment,
    error::Result,
    net::{Budget, Timeouts},
    store::{Keys, Released, Renewed, Store},
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
    /// Never borrowed across a question to the store.
    state: RefCell<State>,
    pub(super) is_registered: Cell<bool>,
}

/// How a critical section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The lease covered it.
    Covered,
    /// The lease was over before it was.
    Lost,
}

impl Lock {
    /// A handle that holds nothing yet.
    pub fn new(store: Rc<dyn Store>, keys: Keys, ttl: Duration, timeouts: Timeouts) -> Rc<Self> {
        Self::with_state(store, keys, ttl, timeouts, State::new(None))
    }

    /// A handle bound to a token that exists already; it does not hold until Redis has said so.
    pub fn restore(store: Rc<dyn Store>, keys: Keys, ttl: Duration, timeouts: Timeouts, token: Token) -> Rc<Self> {
        Self::with_state(store, keys, ttl, timeouts, State::new(Some(token)))
    }

    fn with_state(store: Rc<dyn Store>, keys: Keys, ttl: Duration, timeouts: Timeouts, state: State) -> Rc<Self> {
        let (state, is_registered) = (RefCell::new(state), Cell::new(false));
        Rc::new(Self { store, keys, ttl, timeouts, state, is_registered })
    }

    /// Extends the lease to at least `ttl` from now. False: lost. An error leaves what is known as it was.
    pub fn renew(self: &Rc<Self>, ttl: Option<Duration>) -> Result<bool> {
        self.renew_within(ttl.unwrap_or(self.ttl), Budget::new(self.timeouts))
    }

    pub(super) fn renew_within(self: &Rc<Self>, ttl: Duration, budget: Budget) -> Result<bool> {
        let (token, standing) = {
            let state = self.state();
            (state.token_to_renew(), state.standing())
        };
        let Some(token) = token else { return Ok(false) };
        match self.store.renew(&self.keys, token.as_bytes(), standing, ttl, budget)? {
            Renewed::Held(grant) => {
                self.state().hold(token, grant.fence, validity::end(grant.sent_at, ttl));
                registry::add(self);
                Ok(true)
            }
            Renewed::Lost(_) => {
                self.state().lost();
                Ok(false)
            }
        }
    }

    /// Gives the lock back. True: it was ours, and is free now. False: it was lost before.
    /// After an error it counts as not held, and a further release gives the final answer.
    pub fn release(self: &Rc<Self>) -> Result<bool> {
        self.release_within(Budget::new(self.timeouts))
    }

    pub(super) fn release_within(self: &Rc<Self>, budget: Budget) -> Result<bool> {
        let Some((token, memory)) = self.state().begin_release(self.retries()) else { return Ok(false) };
        registry::add(self);
        let released = self.store.release(&self.keys, token.as_bytes(), memory, budget)?;
        self.state().end();
        Ok(released == Released::Ours)
    }

    /// Ends an inner critical section: asks whether the lease covers it, and leaves the lock to the outer one.
    pub fn conclude_inner(self: &Rc<Self>) -> Ending {
        let (is_over, is_lost) = {
            let state = self.state();
            (state.token.is_none(), state.is_lost)
        };
        let is_covered = match is_over {
            true => !is_lost,
            // Unanswered: the validity tells.
            false => self.renew(None).unwrap_or_else(|_| self.is_held()),
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
            false => self.release().unwrap_or(true) && is_held,
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
        self.state().end();
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
        let is_removed = self.store.force_release(&self.keys, Budget::new(self.timeouts))?;
        // Whoever's it was: nobody holds it now, this handle neither.
        self.state().force_released();
        Ok(is_removed)
    }

    /// Whether the lease may be relied on now; no question to Redis.
    pub fn is_held(&self) -> bool {
        self.state().is_held()
    }

    /// The validity left.
    pub fn remaining(&self) -> Duration {
        self.state().valid_until.map_or(Duration::ZERO, Moment::remaining)
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
        state
    }
}
